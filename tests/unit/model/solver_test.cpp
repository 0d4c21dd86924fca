#include "worker/model/job/solver.hpp"

#include "common/math/update_rules.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

using namespace taut;

namespace {

Result<std::vector<std::string>> check(const std::string& text) {
  pb::SolverParameter solver;
  REQUIRE(parse_text(text, "solver", solver).has_value());
  return model::check_solver(solver);
}

const std::string kBase = "base_lr: 0.1 max_iter: 10 ";

std::string error_of(const std::string& text) {
  const auto checked = check(text);
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().code == ErrorCode::kInvalid);
  return checked.error().message;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a loss scale without float16, or below 0, is refused", "[solver]") {
  CHECK_THAT(error_of(kBase + "loss_scale: 128"), Catch::Matchers::Contains("FLOAT32"));
  CHECK_THAT(error_of(kBase + "loss_scale: 128 precision: BFLOAT16"),
             Catch::Matchers::Contains("BFLOAT16"));
  CHECK_THAT(error_of(kBase + "loss_scale: -1 precision: FLOAT16"),
             Catch::Matchers::Contains("-1"));
  CHECK(check(kBase + "loss_scale: 128 precision: FLOAT16").has_value());
  CHECK(check(kBase + "precision: TF32 deterministic: true").has_value());
}

TEST_CASE("a solver of each policy and type passes without a warning", "[solver]") {
  for (const char* policy :
       {"lr_policy: 'fixed'",
        "lr_policy: 'step' gamma: 0.1 stepsize: 5",
        "lr_policy: 'multistep' gamma: 0.1 stepvalue: 3 stepvalue: 7",
        "lr_policy: 'exp' gamma: 0.9",
        "lr_policy: 'inv' gamma: 0.1 power: 0.75",
        "lr_policy: 'poly' power: 1",
        "lr_policy: 'sigmoid' gamma: -0.1 stepsize: 5",
        "lr_policy: 'cosine' warmup_iter: 3",
        "type: 'Nesterov' momentum: 0.9",
        "type: 'Adam' momentum: 0.9 momentum2: 0.99",
        "type: 'AdaGrad' delta: 1e-6",
        "type: 'RMSProp' rms_decay: 0.98 momentum: 0",
        "type: 'AdaDelta' momentum: 0.95 delta: 1e-6",
        "type: 'AdamW' momentum: 0.9 momentum2: 0.99 weight_decay: 0.1 clip_gradients: 1",
        "type: 'LARS' momentum: 0.9 trust_coefficient: 0.02",
        "type: 'LAMB' momentum: 0.9 momentum2: 0.99 clip_gradients: 1",
        "type: 'FTRL' ftrl_beta: 0 ftrl_l1: 0.5 ftrl_l2: 0.1",
        "clip_gradients: 5",
        "clip_gradients: -1",
        "regularization_type: 'L1' weight_decay: 0.1",
        "test_iter: 5 test_interval: 2",
        "test_iter: 5 test_iter: 2 test_state { stage: 'a' } test_state { stage: 'b' }",
        "iter_size: 4 lr_reference_batch: 256"}) {
    INFO(policy);
    const auto checked = check(kBase + policy);
    REQUIRE(checked.has_value());
    CHECK(checked.value().empty());
  }
}

TEST_CASE("unknown names are reported, with the known ones", "[solver]") {
  const std::string rule = error_of(kBase + "type: 'AdaGrid'");
  CHECK_THAT(rule, Catch::Matchers::StartsWith("type \"AdaGrid\" is unknown; did you mean "
                                               "\"AdaGrad\"?; known are SGD, Nesterov, "));
  for (const math::RuleInfo& known : math::rule_types()) {
    CHECK_THAT(rule, Catch::Matchers::Contains(std::string(known.name)));
  }
  CHECK(error_of(kBase + "lr_policy: 'inverse'") ==
        "lr_policy \"inverse\" is unknown; known are fixed, step, multistep, exp, inv, poly, "
        "sigmoid, cosine");
  CHECK(error_of(kBase + "regularization_type: 'L3'") ==
        "regularization_type \"L3\" is unknown; did you mean \"L1\"?; known are L1, L2");
}

TEST_CASE("missing required fields are reported", "[solver]") {
  CHECK(error_of("max_iter: 1") == "base_lr is missing");
  CHECK(error_of("base_lr: 1") == "max_iter is missing");
  CHECK(error_of(kBase + "lr_policy: 'step' stepsize: 1") ==
        "gamma is missing: lr_policy \"step\" needs it");
  CHECK(error_of(kBase + "lr_policy: 'step' gamma: 1") ==
        "stepsize is missing: lr_policy \"step\" needs it");
  CHECK(error_of(kBase + "lr_policy: 'multistep' gamma: 1") ==
        "stepvalue is missing: lr_policy \"multistep\" needs it");
  CHECK(error_of(kBase + "lr_policy: 'inv' gamma: 1") ==
        "power is missing: lr_policy \"inv\" needs it");
  CHECK(error_of(kBase + "test_interval: 5") ==
        "test_interval is 5, but test_iter is missing: say how many batches a test takes");
}

TEST_CASE("impossible numbers are reported", "[solver]") {
  CHECK(error_of("base_lr: -0.5 max_iter: 1") == "base_lr must be at least 0, is -0.5");
  CHECK(error_of("base_lr: nan max_iter: 1") == "base_lr must be at least 0, is nan");
  CHECK(error_of("base_lr: 1 max_iter: 0") == "max_iter must be at least 1, is 0");
  CHECK(error_of(kBase + "momentum: 1") == "momentum must be in [0, 1), is 1");
  CHECK(error_of(kBase + "momentum2: -1") == "momentum2 must be in [0, 1), is -1");
  CHECK(error_of(kBase + "delta: 0") == "delta must be greater than 0, is 0");
  CHECK(error_of(kBase + "rms_decay: 1") == "rms_decay must be in [0, 1), is 1");
  CHECK(error_of(kBase + "trust_coefficient: 0") ==
        "trust_coefficient must be greater than 0, is 0");
  CHECK(error_of(kBase + "type: 'AdaGrad' momentum: 0.5") ==
        "momentum is 0.5: type AdaGrad has none; omit it");
  CHECK(error_of(kBase + "type: 'RMSProp' momentum: 0.5") ==
        "momentum is 0.5: type RMSProp has none; omit it");
  CHECK(error_of(kBase + "type: 'LARS' clip_gradients: 1") ==
        "clip_gradients is 1: type LARS scales each table's gradient by its norm; omit it");
  CHECK(error_of(kBase + "type: 'FTRL' ftrl_beta: -1") == "ftrl_beta must be at least 0, is -1");
  CHECK(error_of(kBase + "type: 'FTRL' ftrl_l1: nan") == "ftrl_l1 must be at least 0, is nan");
  CHECK(error_of(kBase + "type: 'FTRL' ftrl_l2: -0.5") == "ftrl_l2 must be at least 0, is -0.5");
  CHECK(error_of(kBase + "type: 'FTRL' momentum: 0.9") ==
        "momentum is 0.9: type FTRL has none; omit it");
  CHECK(error_of(kBase + "type: 'FTRL' weight_decay: 0.5") ==
        "weight_decay is 0.5: type FTRL has its own terms; omit it and set ftrl_l2");
  CHECK(error_of(kBase + "type: 'FTRL' weight_decay: 0.5 regularization_type: 'L1'") ==
        "weight_decay is 0.5: type FTRL has its own terms; omit it and set ftrl_l1");
  CHECK(error_of(kBase + "weight_decay: -1") == "weight_decay must be at least 0, is -1");
  CHECK(error_of(kBase + "clip_gradients: 0") ==
        "clip_gradients must be greater than 0, or -1 for none, is 0");
  CHECK(error_of(kBase + "lr_policy: 'exp' gamma: -1") == "gamma must be at least 0, is -1");
  CHECK(error_of(kBase + "lr_policy: 'sigmoid' gamma: inf stepsize: 1") == "gamma is inf");
  CHECK(error_of(kBase + "lr_policy: 'poly' power: -1") == "power must be at least 0, is -1");
  CHECK(error_of(kBase + "lr_policy: 'step' gamma: 1 stepsize: 0") ==
        "stepsize must be at least 1, is 0");
  CHECK(error_of(kBase + "lr_policy: 'multistep' gamma: 1 stepvalue: 5 stepvalue: 5") ==
        "stepvalue 5 follows 5: they must be at least 1 and rise");
  CHECK(error_of(kBase + "warmup_iter: -1") == "warmup_iter must be at least 0, is -1");
  CHECK(error_of(kBase + "warmup_start_lr: -1") == "warmup_start_lr must be at least 0, is -1");
  CHECK(error_of(kBase + "test_iter: 0") == "test_iter must be at least 1, is 0");
  CHECK(error_of(kBase + "test_net_param { } test_net_param { } test_iter: 1") ==
        "test_iter is given 1 times for 2 test nets: say how many batches a test of each takes");
  CHECK(
      error_of(kBase + "test_iter: 1 test_iter: 2 test_state { stage: 'a' }") ==
      "test_state is given 1 times and test_iter 2 times: give each test phase one of both, or no "
      "test_state");
  CHECK(error_of(kBase + "iter_size: 0") == "iter_size must be at least 1, is 0");
  CHECK(error_of(kBase + "lr_reference_batch: -1") ==
        "lr_reference_batch must be at least 0, is -1");
  CHECK(error_of(kBase + "test_interval: -1") == "test_interval must be at least 0, is -1");
  CHECK(error_of(kBase + "display: -1") == "display must be at least 0, is -1");
  CHECK(error_of(kBase + "average_loss: 0") == "average_loss must be at least 1, is 0");
  CHECK(error_of(kBase + "snapshot: -1") == "snapshot must be at least 0, is -1");
}

TEST_CASE("fields of a solver without an effect are warned of", "[solver]") {
  CHECK(check(kBase + "solver_mode: CPU").value() ==
        Lines{"solver_mode CPU: superseded by the worker's device setting"});
  CHECK(check(kBase + "snapshot: 5 snapshot_prefix: 'x'").value().empty());
  CHECK(check(kBase + "snapshot_format: HDF5 snapshot_diff: true device_id: 1 debug_info: true "
                      "layer_wise_reduce: false test_compute_loss: true")
            .value() ==
        Lines{"snapshot_format: checkpoints have one format",
              "snapshot_diff: gradients are not saved",
              "device_id: superseded by the worker's device setting",
              "debug_info: superseded by the worker's records (TensorBoard, timeline)",
              "layer_wise_reduce: superseded by the worker's overlap setting",
              "test_compute_loss: a test computes its losses in any case"});
  CHECK(check(kBase + "gamma: 1 power: 1 stepsize: 1 stepvalue: 1").value() ==
        Lines{"gamma: lr_policy \"fixed\" does not read it",
              "power: lr_policy \"fixed\" does not read it",
              "stepsize: lr_policy \"fixed\" does not read it",
              "stepvalue: lr_policy \"fixed\" does not read it"});
  CHECK(check(kBase + "momentum2: 0.9 delta: 1 rms_decay: 0.5 trust_coefficient: 1").value() ==
        Lines{"momentum2: type \"SGD\" does not read it", "delta: type \"SGD\" does not read it",
              "rms_decay: type \"SGD\" does not read it",
              "trust_coefficient: type \"SGD\" does not read it"});
  CHECK(check(kBase + "ftrl_beta: 1 ftrl_l1: 0 ftrl_l2: 0").value() ==
        Lines{"ftrl_beta: type \"SGD\" does not read it", "ftrl_l1: type \"SGD\" does not read it",
              "ftrl_l2: type \"SGD\" does not read it"});
}

TEST_CASE("the older spelling of a solver's type is today's", "[solver]") {
  const std::vector<std::pair<std::string, std::string>> spellings = {
      {"SGD", "SGD"},         {"NESTEROV", "Nesterov"}, {"ADAGRAD", "AdaGrad"},
      {"RMSPROP", "RMSProp"}, {"ADADELTA", "AdaDelta"}, {"ADAM", "Adam"}};
  for (const auto& [older, type] : spellings) {
    pb::SolverParameter solver;
    REQUIRE(parse_text("solver_type: " + older, "solver", solver).has_value());
    REQUIRE(model::upgrade_solver(solver).has_value());
    CHECK(solver.type() == type);
    CHECK_FALSE(solver.has_solver_type());
  }
  pb::SolverParameter both;
  REQUIRE(parse_text("solver_type: ADAM type: 'SGD'", "solver", both).has_value());
  CHECK(model::upgrade_solver(both).error().message ==
        "solver_type ADAM is the older spelling of type, but type \"SGD\" is given too: give one "
        "of them");
}
