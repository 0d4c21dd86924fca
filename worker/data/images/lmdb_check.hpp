#pragma once

#include <filesystem>
#include <string>

#include "common/result.hpp"

namespace taut::data {

/// Whether LMDB may trust a data.mdb. LMDB maps the file and follows what is stored in it, beyond
/// the file's end too: so everything that it would follow is looked at before. Both meta pages;
/// every branch and leaf page of the table, once each; that every record is within the file. What
/// records hold is not read. Tables that Caffe does not write (several values under a key, tables
/// in tables) are refused.
/// name      of the database, for messages
/// Errors    not_found; io; invalid: no LMDB, another version of it, truncated, or damaged: the
///           page and what is wrong with it
/// Source    LMDB 0.9, mdb.c: MDB_meta, MDB_db, MDB_page, MDB_node
[[nodiscard]] Result<void> check_lmdb(const std::filesystem::path& file, const std::string& name);

}  // namespace taut::data
