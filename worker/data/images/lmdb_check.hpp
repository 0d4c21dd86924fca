#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::data {

/// Checks that LMDB may trust a data.mdb. LMDB maps the file and follows the offsets stored in it,
/// even beyond the file's end, so everything that it would follow is checked first: both meta
/// pages; every branch and leaf page of the table, once each; that every record is within the file.
/// The contents of records are not read. Tables that Caffe does not write (several values under a
/// key, tables in tables) are refused.
/// name      of the database, for messages
/// Errors    not_found; io; invalid: not an LMDB, an unsupported version, truncated, or damaged
///           (names the page and the fault)
/// Source    LMDB 0.9, mdb.c: MDB_meta, MDB_db, MDB_page, MDB_node
[[nodiscard]] Result<void> check_lmdb(const std::filesystem::path& file, const std::string& name);

}  // namespace taut::data
