#include "cli/manifest/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/manifest/yaml.hpp"

namespace taut::cli {
namespace {

/// RFC 4648, section 4.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

/// A key of a Secret has no '/'.
std::string secret_key(std::string file) {
  std::ranges::replace(file, '/', '.');
  return file;
}

std::string config_map(const ManifestOptions& options, const Files& files) {
  std::string text = "apiVersion: v1\nkind: ConfigMap\n" + metadata(options, "-config") + "data:\n";
  for (const auto& [name, content] : files) {
    text += fmt::format("  {}: |\n{}", name, indented(content, 4));
  }
  return text;
}

std::string secret(const ManifestOptions& options, const std::string& role, const Files& files) {
  std::string text = "apiVersion: v1\nkind: Secret\n" +
                     metadata(options, fmt::format("-{}-keys", role)) + "type: Opaque\ndata:\n";
  for (const auto& [name, content] : files) {
    text += fmt::format("  {}: {}\n", secret_key(name), base64(content));
  }
  return text;
}

std::string service(const ManifestOptions& options) {
  return "apiVersion: v1\nkind: Service\n" + metadata(options, "-coordinator") +
         fmt::format(R"(spec:
  # Daemons connect before the coordinator is ready, and again after it was restarted.
  publishNotReadyAddresses: true
  selector:
    jobset.sigs.k8s.io/jobset-name: {0}
    jobset.sigs.k8s.io/replicatedjob-name: coordinator
  ports:
  - name: control
    port: 7600
    targetPort: 7600
)",
                     options.name);
}

std::string pod_monitor(const ManifestOptions& options) {
  return "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\n" + metadata(options, "") +
         fmt::format(R"(spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: tautline
      app.kubernetes.io/instance: {0}
  podMetricsEndpoints:
  - port: metrics
    path: /metrics
    interval: 15s
)",
                     options.name);
}

std::string heading(const ManifestOptions& options, bool has_keys) {
  std::string text = fmt::format(
      "# Written by tautline manifest: {} trains on {} servers and {} workers as a JobSet.\n"
      "#   kubectl apply -f FILE; kubectl logs -f job/{}-submit-0\n"
      "# Kubernetes' own objects were checked against its published schemas. JobSet publishes "
      "none\n"
      "# for other programs: kubectl apply --dry-run=server -f FILE has the cluster check it.\n",
      options.name, options.servers, options.workers, options.name);
  if (has_keys) {
    return text + "# The Secrets below are the cluster's keys: who reads them can join it.\n";
  }
  return text + fmt::format(
                    "# The Secrets {0}-coordinator-keys, {0}-server-keys, {0}-worker-keys and "
                    "{0}-submit-keys are\n# not in it: --keys DIR makes them.\n",
                    options.name);
}

}  // namespace

Result<std::string> manifests(const ManifestOptions& options, const pb::Job& job,
                              const ManifestKeys* keys) {
  TAUT_TRY(const Files files, pod_files(options, job));
  std::vector<std::string> documents{config_map(options, files)};
  if (keys != nullptr) {
    documents.push_back(secret(options, "coordinator", keys->coordinator));
    documents.push_back(secret(options, "server", keys->servers));
    documents.push_back(secret(options, "worker", keys->workers));
    documents.push_back(secret(options, "submit", keys->submit));
  }
  documents.push_back(service(options));
  documents.push_back(job_set(options));
  if (options.monitor) documents.push_back(pod_monitor(options));
  std::string text = heading(options, keys != nullptr);
  for (const std::string& document : documents) text += "---\n" + document;
  return text;
}

}  // namespace taut::cli
