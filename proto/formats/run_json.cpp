#include "proto/formats/run_json.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/files/file.hpp"
#include "proto/wire_version.hpp"

namespace taut {

nlohmann::ordered_json begin_run_json(const std::string& kind, const std::string& job_name,
                                      const pb::RunOrigin& origin) {
  return {{"kind", kind},
          {"name", job_name},
          {"began", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"command", std::vector<std::string>(origin.command().begin(), origin.command().end())},
          {"host", origin.host()},
          {"working_folder", origin.folder()},
          {"project", origin.project()},
          {"build", build_name()}};
}

nlohmann::ordered_json choice_json(const pb::CompressionChoice& choice) {
  using Json = nlohmann::ordered_json;
  const auto scheme = [](const auto& list) {
    return list.empty() ? Json() : Json(list.Get(0).Scheme_Name(list.Get(0).scheme()));
  };
  Json predicted = Json::array();
  for (const pb::PredictedClock& clock : choice.predicted()) {
    predicted.push_back({{"push", pb::PushCompression::Scheme_Name(clock.push())},
                         {"pull", pb::PushCompression::Scheme_Name(clock.pull())},
                         {"clock_s", clock.clock_s()},
                         {"link_s", clock.link_s()},
                         {"codec_s", clock.codec_s()}});
  }
  return {{"push", scheme(choice.compression().push())},
          {"pull", scheme(choice.compression().pull())},
          {"reason", choice.text()},
          {"predicted", predicted}};
}

Result<void> write_run_json(const std::filesystem::path& folder,
                            const nlohmann::ordered_json& about) {
  return write_file_atomically(
      folder / "run.json",
      about.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace taut
