#include "worker/tools/image_job.hpp"

#include <string>
#include <vector>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

namespace taut::worker {
namespace {

TEST_CASE("images replace only the data layer, whatever else has its name", "[tools]") {
  pb::Job job;
  REQUIRE(parse_text("net_param { "
                     "  layer { name: 'data' type: 'Input' top: 'raw' "
                     "          input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } "
                     "          include { phase: TEST } } "
                     "  layer { name: 'data' type: 'Data' top: 'raw' include { phase: TRAIN } } "
                     "  layer { name: 'data' type: 'Power' bottom: 'raw' top: 'data' "
                     "          power_param { scale: 0.5 } } "
                     "  layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                     "          inner_product_param { num_output: 2 } } "
                     "}",
                     "job", job)
              .has_value());
  pb::ToolRequest request;
  request.add_images("one.png");
  const auto image_job = ImageJob::create(job, request);
  INFO((image_job ? std::string() : image_job.error().message));
  REQUIRE(image_job.has_value());
  std::vector<std::string> types;
  for (const pb::LayerParameter& layer : image_job.value().job().net_param().layer()) {
    types.push_back(layer.type());
  }
  CHECK(types == std::vector<std::string>{"ImageData", "Power", "InnerProduct"});
}

}  // namespace
}  // namespace taut::worker
