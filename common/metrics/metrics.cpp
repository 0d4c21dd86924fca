#include "common/metrics/metrics.hpp"

#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>

namespace taut::metrics {

prometheus::ClientMetric& Scrape::add(const std::string& name, const std::string& help,
                                      prometheus::MetricType type, Labels labels) {
  const std::string full = "tautline_" + name;
  if (families_.empty() || families_.back().name != full) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = full;
    family.help = help;
    family.type = type;
  }
  prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
  for (auto& label : labels) metric.label.push_back({label.first, std::move(label.second)});
  return metric;
}

void Scrape::gauge(const std::string& name, const std::string& help, double value, Labels labels) {
  add(name, help, prometheus::MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void Scrape::counter(const std::string& name, const std::string& help, double value,
                     Labels labels) {
  add(name, help, prometheus::MetricType::Counter, std::move(labels)).counter.value = value;
}

void Scrape::histogram(const std::string& name, const std::string& help,
                       const std::map<std::int64_t, std::uint64_t>& counts,
                       const std::vector<double>& bounds, Labels labels) {
  auto& histogram = add(name, help, prometheus::MetricType::Histogram, std::move(labels)).histogram;
  for (const auto& [value, count] : counts) {
    histogram.sample_count += count;
    histogram.sample_sum += static_cast<double>(value) * static_cast<double>(count);
  }
  auto next = counts.begin();
  std::uint64_t below = 0;
  for (const double bound : bounds) {
    for (; next != counts.end() && static_cast<double>(next->first) <= bound; ++next) {
      below += next->second;
    }
    histogram.bucket.push_back({below, bound});
  }
  histogram.bucket.push_back({histogram.sample_count, std::numeric_limits<double>::infinity()});
}

void Scrape::build_info(const std::string& build, const std::string& role,
                        const std::string& process) {
  gauge("build_info", "Which program this is; always 1.", 1,
        {{"build", build}, {"role", role}, {"process", process}});
}

void Scrape::process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto time = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  counter("process_cpu_seconds_total", "Processor time of this process.",
          time(usage.ru_utime) + time(usage.ru_stime));
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  gauge("process_resident_bytes", "Resident memory of this process.",
        resident * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

std::string Scrape::text() const {
  return prometheus::TextSerializer().Serialize(families_);
}

}  // namespace taut::metrics
