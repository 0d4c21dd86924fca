#pragma once

#include <memory>

#include "server/coordinator/etcd/etcd_client.hpp"
#include "server/coordinator/leadership.hpp"
#include "server/coordinator/store/store.hpp"

namespace taut {

/// Keeps the state in etcd, where another coordinator finds it. load() begins a term, and each save
/// in it is a transaction that etcd executes only while that term's leader owns its key, and in the
/// order in which saves were made: one that was delayed on its way changes nothing. A save that is
/// too large for one transaction is split into several; a job and the one that continues it stay in
/// the same transaction.
///
/// Keys    PREFIX/counters; PREFIX/jobs/N, without its definition, which is under
///         PREFIX/definitions/N; PREFIX/fence, the number of the newest save
/// Errors of load() and save(): closed: the term is over; io: etcd does not answer, and it is not
/// known whether a save was made, or which part of it; the next save completes it
[[nodiscard]] std::unique_ptr<CoordinatorStore> make_etcd_store(
    const EtcdOptions& options, std::shared_ptr<const Leadership> leadership);

}  // namespace taut
