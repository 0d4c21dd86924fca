#include "proto/config/exchange/settle_exchange.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>

namespace taut {
namespace {

using pb::Consistency;
using pb::GossipGraph;
using pb::WorkerExchange;

FieldMisfit misfit_at(const char* field, const std::string& what) {
  return {{{"exchange"}, {field}}, fmt::format("exchange: {}", what)};
}

/// A policy that is impossible if updates do not reach the servers.
std::optional<std::string> other_policy(const Consistency& consistency) {
  if (!is_bsp(consistency)) {
    return fmt::format("mode: {}", Consistency::Mode_Name(consistency.mode()));
  }
  if (consistency.backup_workers() > 0) return "backup_workers";
  if (consistency.has_elastic_averaging()) return "elastic_averaging";
  const pb::PeriodicAveraging& averaging = consistency.periodic_averaging();
  if (averaging.has_outer()) return "periodic_averaging.outer";
  if (averaging.fragments() > 1) return "periodic_averaging.fragments";
  return std::nullopt;
}

bool is_prime(std::uint32_t number) {
  for (std::uint32_t divisor = 2; divisor <= number / divisor; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return number > 1;
}

/// A field that the type does not read.
std::optional<FieldMisfit> misfit_of_fields(const WorkerExchange& exchange) {
  const std::string& type = WorkerExchange::Type_Name(exchange.type());
  if (exchange.has_algorithm() && exchange.type() != WorkerExchange::ALLREDUCE) {
    return misfit_at("algorithm", fmt::format("type {} does not read algorithm; omit it or choose "
                                              "type: ALLREDUCE",
                                              type));
  }
  if (exchange.has_graph() && exchange.type() != WorkerExchange::GOSSIP) {
    return misfit_at(
        "graph", fmt::format("type {} does not read graph; omit it or choose type: GOSSIP", type));
  }
  if (exchange.has_asynchronous() && exchange.type() != WorkerExchange::GOSSIP) {
    return misfit_at("asynchronous",
                     fmt::format("type {} does not read asynchronous; omit it or choose type: "
                                 "GOSSIP",
                                 type));
  }
  if (exchange.has_interval() && exchange.type() == WorkerExchange::SERVERS) {
    return misfit_at("interval", fmt::format("type {} does not read interval; omit it or choose "
                                             "type: ALLREDUCE or GOSSIP",
                                             type));
  }
  return std::nullopt;
}

/// A graph that does not exist for this number of workers. If some are lost, the rest use what is
/// left of it.
std::optional<FieldMisfit> misfit_of_graph(const pb::Job& job) {
  const std::uint32_t workers = job.workers();
  if (!gossips(job) || workers == 0) return std::nullopt;
  if (job.exchange().graph() == GossipGraph::HYPERCUBE && !std::has_single_bit(workers)) {
    return misfit_at("graph", fmt::format("graph HYPERCUBE needs 2, 4, 8 ... workers, and workers "
                                          "is {}; choose such a number or another graph",
                                          workers));
  }
  if (job.exchange().graph() == GossipGraph::TORUS && is_prime(workers)) {
    return misfit_at("graph", fmt::format("graph TORUS needs rows and columns, and workers is {}, "
                                          "a prime; choose another number or graph: RING",
                                          workers));
  }
  return std::nullopt;
}

}  // namespace

bool exchanges_at_workers(const pb::Job& job) {
  return job.exchange().type() != WorkerExchange::SERVERS;
}

bool gossips(const pb::Job& job) {
  return job.exchange().type() == WorkerExchange::GOSSIP;
}

void settle_exchange(pb::Job& job) {
  if (!exchanges_at_workers(job)) return;
  Consistency& consistency = *job.mutable_consistency();
  if (!consistency.has_mode() && !consistency.has_slack()) consistency.set_mode(Consistency::BSP);
  if (!consistency.has_periodic_averaging()) {
    consistency.mutable_periodic_averaging()->set_interval(job.exchange().interval());
  }
}

std::optional<FieldMisfit> misfit_of_exchange(const pb::Job& job) {
  const WorkerExchange& exchange = job.exchange();
  if (auto found = misfit_of_fields(exchange)) return found;
  if (!exchanges_at_workers(job)) return std::nullopt;
  if (exchange.interval() < 1 || exchange.interval() > kMaxInterval) {
    return misfit_at("interval", fmt::format("interval is {}; it must be from 1 to {}",
                                             exchange.interval(), kMaxInterval));
  }
  const std::string& type = WorkerExchange::Type_Name(exchange.type());
  const auto of_type = [&](const std::string& what) { return misfit_at("type", type + what); };
  if (job.external_members()) {
    return of_type(" is for workers that train nets, and the members are programs; omit exchange");
  }
  if (const auto other = other_policy(job.consistency())) {
    return of_type(fmt::format(
        " {} and cannot be combined with consistency {{ {} }}; omit one",
        exchange.asynchronous() ? "has its workers meet as in BSP" : "is BSP among workers",
        *other));
  }
  const pb::PeriodicAveraging& averaging = job.consistency().periodic_averaging();
  if (averaging.interval() != exchange.interval()) {
    return misfit_at("interval",
                     fmt::format("interval is {}, and that of consistency {{ periodic_averaging }} "
                                 "{}; omit the latter",
                                 exchange.interval(), averaging.interval()));
  }
  if (const auto why = misfit_of_reference_batch(job)) return of_type(" " + *why);
  if (job.reduction() == pb::Job::SUM) {
    return of_type(" takes the mean; omit reduction: SUM");
  }
  if (job.on_bad_update() != pb::Job::ACCEPT) {
    return of_type(" adds updates up before a server sees them; omit on_bad_update");
  }
  if (job.has_network()) {
    return misfit_at("type",
                     fmt::format("network {{ }} applies to connections to servers, and {} has "
                                 "others; omit one",
                                 type));
  }
  if (job.balance()) {
    return of_type(" cannot be combined with balance; omit one");
  }
  if (job.compression().push_size() > 0 || job.compression().pull_size() > 0) {
    return of_type(gossips(job) ? " averages float32 alone; omit compression"
                                : " sums float32 alone; omit compression");
  }
  return misfit_of_graph(job);
}

}  // namespace taut
