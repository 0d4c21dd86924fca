#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace taut::metrics {

/// Labels of one value, e.g. {{"worker", "worker0"}}.
using Labels = std::vector<std::pair<std::string, std::string>>;

/// Builds one answer to a scrape. Names get the prefix `tautline_`; base units are part of the name
/// (`_seconds`, `_bytes`); counters end with `_total`. REQUIRES: a name's values are consecutive.
/// Source    https://prometheus.io/docs/practices/naming
class Scrape {
 public:
  void gauge(const std::string& name, const std::string& help, double value, Labels labels = {});
  void counter(const std::string& name, const std::string& help, double value, Labels labels = {});
  /// counts   how often each value was seen
  /// bounds   of the buckets, ascending; greater values count only in +Inf
  void histogram(const std::string& name, const std::string& help,
                 const std::map<std::int64_t, std::uint64_t>& counts,
                 const std::vector<double>& bounds, Labels labels = {});
  /// tautline_build_info, which is always 1.
  void build_info(const std::string& build, const std::string& role, const std::string& process);
  /// The process's own memory and processor time, from /proc.
  void process();

  /// In Prometheus's text format 0.0.4.
  [[nodiscard]] std::string text() const;

 private:
  prometheus::ClientMetric& add(const std::string& name, const std::string& help,
                                prometheus::MetricType type, Labels labels);
  std::vector<prometheus::MetricFamily> families_;
};

/// Where metrics are served.
inline constexpr const char* kPath = "/metrics";
/// The content type of Scrape::text().
inline constexpr const char* kTextType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace taut::metrics
