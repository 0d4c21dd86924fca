#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"fifo", "in the order of submission, one after the other", make_fifo},
    {"backfill", "in that order; later jobs fill gaps if they delay no earlier one", make_backfill},
    {"shortest", "what ends soonest goes first, nothing is stopped", make_shortest},
    {"las", "what has had least goes first, nothing is stopped", make_las},
    {"srtf", "what ends soonest has devices, others are stopped", make_srtf},
    {"srtf-predicted", "the same, by what jobs like it took", make_srtf_predicted},
    {"tiresias", "least attained service in two queues", make_tiresias},
    {"themis", "auctions for the jobs that are treated worst", make_themis},
    {"gandiva", "time slices, packing, migration", make_gandiva},
    {"allox", "jobs matched to types of devices and places in their queues", make_allox},
    {"gavel", "max-min fairness over types of devices, a linear program", make_gavel},
    {"gavel-blind", "the same, taking all types for equal", make_gavel_blind},
    {"optimus", "devices go where one more shortens a job most", make_optimus},
    {"lyra", "elastic jobs, and hosts on loan", make_lyra},
    {"lyra-own", "the same without hosts on loan", make_lyra_own},
    {"muri", "jobs share devices and take turns in their stages", make_muri},
    {"network", "placement by sensitivity to the network", make_network},
    {"network-blind", "the same order without that placement", make_network_blind},
};

}  // namespace

std::span<const PolicyEntry> policies() {
  return kPolicies;
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
  }
  return nullptr;
}

}  // namespace taut::schedule
