#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/manifest/yaml.hpp"

namespace taut::cli {
namespace {

// A pod that must end hands its work over, and has some time left to write its files.
constexpr std::uint32_t kBeyondNotice_s = 30;

/// One kind of pod of the JobSet.
struct PodKind {
  std::string role{};  // "coordinator", "server", "worker", "submit"
  std::string keys{};  // of the Secret
  std::uint32_t count = 1;
  std::string command{};  // as a YAML list
  std::string ports{};    // a YAML list
  std::string probes{};   // YAML
  std::uint64_t memory = 0;
  std::uint32_t processors = 1;
  std::uint32_t gpus = 0;
  std::string restart = "OnFailure";  // whether the kubelet restarts its container
};

std::string list(const std::vector<std::string>& words) {
  std::string text = "[";
  for (const std::string& word : words) {
    text += fmt::format("{}\"{}\"", text.size() == 1 ? "" : ", ", word);
  }
  return text + "]";
}

std::string volume(const std::string& name, const std::string& claim, bool is_read_only) {
  if (claim.empty()) return fmt::format("- name: {}\n  emptyDir: {{}}\n", name);
  return fmt::format("- name: {}\n  persistentVolumeClaim:\n    claimName: \"{}\"\n{}", name, claim,
                     is_read_only ? "    readOnly: true\n" : "");
}

/// Puts the keys where only this user can read them, unlike in a mounted Secret, and the pod's
/// address and its Job's number into the configurations.
constexpr const char* kPrepare = R"sh(umask 077
mkdir -p /run/tautline/keys/admitted
for file in /etc/tautline-keys/*; do
  name=$(basename "$file")
  case $name in
    admitted.*) cp -f "$file" "/run/tautline/keys/admitted/${name#admitted.}" ;;
    *) cp -f "$file" "/run/tautline/keys/$name" ;;
  esac
done
for file in /etc/tautline-config/*.textproto; do
  sed "s/POD_IP/$POD_IP/g; s/JOB_UID/$JOB_UID/g" "$file" > "/run/tautline/$(basename "$file")"
done
)sh";

constexpr const char* kContainerSecurity = R"(securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
)";

std::string mounts(const ManifestOptions& options) {
  std::string text = R"(volumeMounts:
- name: run
  mountPath: /run/tautline
- name: state
  mountPath: /var/lib/tautline
- name: tmp
  mountPath: /tmp
- name: runs
  mountPath: /runs
)";
  if (!options.data_claim.empty()) {
    text += "- name: data\n  mountPath: /data\n  readOnly: true\n";
  }
  return text;
}

std::string resources(const PodKind& kind) {
  std::string text = fmt::format(
      "resources:\n  requests:\n    cpu: \"{}\"\n    memory: {}Mi\n  limits:\n    memory: {}Mi\n",
      kind.processors, kind.memory >> 20U, kind.memory >> 20U);
  if (kind.gpus > 0) text += fmt::format("    nvidia.com/gpu: {}\n", kind.gpus);
  return text;
}

std::string containers(const ManifestOptions& options, const PodKind& kind) {
  std::string text = fmt::format(
      "initContainers:\n- name: prepare\n  image: {}\n  command: [\"sh\", \"-ec\"]\n  args:\n  - "
      "|\n",
      options.image);
  text += indented(kPrepare, 4);
  text += R"(  env:
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  - name: JOB_UID
    valueFrom:
      fieldRef:
        fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
)";
  text += indented(kContainerSecurity, 2);
  text += R"(  volumeMounts:
  - name: run
    mountPath: /run/tautline
  - name: config
    mountPath: /etc/tautline-config
  - name: keys
    mountPath: /etc/tautline-keys
)";
  text += fmt::format("containers:\n- name: {}\n  image: {}\n  command: {}\n", kind.role,
                      options.image, kind.command);
  text += "  workingDir: /var/lib/tautline\n";
  if (!kind.ports.empty()) text += "  ports:\n" + indented(kind.ports, 2);
  text += indented(kind.probes, 2);
  text += indented(resources(kind), 2);
  text += indented(kContainerSecurity, 2);
  return text + indented(mounts(options), 2);
}

std::string pod(const ManifestOptions& options, const PodKind& kind) {
  std::string text = fmt::format(
      "restartPolicy: {}\nterminationGracePeriodSeconds: {}\n"
      "automountServiceAccountToken: false\n",
      kind.restart, options.notice_s + kBeyondNotice_s);
  text += R"(securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
)";
  text += containers(options, kind);
  text += fmt::format(R"(volumes:
- name: config
  configMap:
    name: {0}-config
- name: keys
  secret:
    secretName: {0}-{1}-keys
    defaultMode: 0440
- name: run
  emptyDir:
    medium: Memory
- name: state
  emptyDir: {{}}
- name: tmp
  emptyDir: {{}}
)",
                      options.name, kind.keys);
  text += volume("runs", options.runs_claim, false);
  if (!options.data_claim.empty()) text += volume("data", options.data_claim, true);
  return text;
}

std::string replicated_job(const ManifestOptions& options, const PodKind& kind) {
  // A pod that fails is created again under its name, and joins again.
  std::string text =
      fmt::format(R"(- name: {0}
  replicas: 1
  template:
    spec:
      completionMode: Indexed
      parallelism: {1}
      completions: {1}
      backoffLimit: {2}
      template:
        metadata:
          labels:
            app.kubernetes.io/name: tautline
            app.kubernetes.io/instance: {3}
            app.kubernetes.io/component: {0}
        spec:
)",
                  kind.role, kind.count, kind.role == "submit" ? 0 : 100, options.name);
  return text + indented(pod(options, kind), 10);
}

constexpr const char* kReadiness = R"(readinessProbe:
  exec:
    command: ["test", "-e", "/run/tautline/ready"]
  periodSeconds: 5
)";
constexpr const char* kMetricsPort = "- name: metrics\n  containerPort: 7680\n";

std::string tcp_probes(int port) {
  return kReadiness + fmt::format(R"(livenessProbe:
  tcpSocket:
    port: {}
  initialDelaySeconds: 30
  periodSeconds: 15
  failureThreshold: 4
)",
                                  port);
}

PodKind coordinator_pod() {
  return {.role = "coordinator",
          .keys = "coordinator",
          .command = list({"tautline-server", "--config", "/run/tautline/coordinator.textproto",
                           "--ready-file", "/run/tautline/ready"}),
          .ports = "- name: control\n  containerPort: 7600\n",
          .probes = tcp_probes(7600),
          .memory = 1ULL << 30U};
}

PodKind server_pods(const ManifestOptions& options) {
  std::string ports = options.open_metrics ? kMetricsPort : "";
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    ports += fmt::format("- name: shard{}\n  containerPort: {}\n", i, 7601 + i);
  }
  return {
      .role = "server",
      .keys = "server",
      .count = options.servers,
      .command = list({"tautline-server", "--config", "/run/tautline/server.textproto", "--name",
                       "server$(JOB_COMPLETION_INDEX)", "--ready-file", "/run/tautline/ready"}),
      .ports = std::move(ports),
      .probes = tcp_probes(7601),
      .memory = options.server_memory,
      .processors = options.shards};
}

PodKind worker_pods(const ManifestOptions& options) {
  return {
      .role = "worker",
      .keys = "worker",
      .count = options.workers,
      .command = list({"tautline-worker", "--config", "/run/tautline/worker.textproto", "--name",
                       "worker$(JOB_COMPLETION_INDEX)", "--ready-file", "/run/tautline/ready"}),
      // A worker has no other port. The coordinator notices one that hangs.
      .ports = options.open_metrics ? kMetricsPort : "",
      .probes = options.open_metrics ? tcp_probes(7680) : kReadiness,
      .memory = options.worker_memory,
      .processors = options.threads,
      .gpus = options.gpus};
}

PodKind submit_pod(const ManifestOptions& options) {
  return {.role = "submit",
          .keys = "submit",
          .command = list({"tautline", "submit", "/run/tautline/job.textproto", "--follow",
                           "--await-servers", std::to_string(options.servers), "--coordinator",
                           options.name + "-coordinator:7600", "--keys", "/run/tautline/keys",
                           "--wait", "600"}),
          .memory = 512ULL << 20U,
          // If it were restarted, it would submit the job a second time.
          .restart = "Never"};
}

}  // namespace

std::string job_set(const ManifestOptions& options) {
  std::string text =
      "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" + metadata(options, "") + R"(spec:
  # It ends when the job has ended; the daemons are then told to end too.
  successPolicy:
    operator: All
    targetReplicatedJobs: ["submit"]
  failurePolicy:
    maxRestarts: 0
  replicatedJobs:
)";
  for (const PodKind& kind :
       {coordinator_pod(), server_pods(options), worker_pods(options), submit_pod(options)}) {
    text += indented(replicated_job(options, kind), 2);
  }
  return text;
}

}  // namespace taut::cli
