#include "worker/model/rules/layer_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/did_you_mean.hpp"
#include "proto/formats/caffe_left_out.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model {
namespace {

/// Every rule, family by family.
const std::vector<LayerRule>& all_rules() {
  static const std::vector<LayerRule> kAll = [] {
    std::vector<LayerRule> all;
    const auto add = [&all](rules::LayerRules family) {
      all.insert(all.end(), family.begin(), family.end());
    };
#define TAUT_ADD_RULES(family) add(rules::family##_rules());
    TAUT_EACH_RULE_FAMILY(TAUT_ADD_RULES)
#undef TAUT_ADD_RULES
    return all;
  }();
  return kAll;
}

}  // namespace

Result<const LayerRule*> find_rule(const std::string& type) {
  const std::vector<LayerRule>& all = all_rules();
  const auto found = std::ranges::find(all, type, &LayerRule::type);
  if (found != all.end()) return &*found;
  if (const auto why = why_left_out(type)) return invalid("is " + *why);
  std::vector<std::string_view> types;
  types.reserve(all.size());
  for (const LayerRule& rule : all) types.push_back(rule.type);
  const std::string problem =
      type.empty() ? "has no type" : fmt::format("is of unknown type \"{}\"", type);
  return invalid(fmt::format("{}{}; known are {}", problem, did_you_mean(type, types),
                             fmt::join(types, ", ")));
}

}  // namespace taut::model
