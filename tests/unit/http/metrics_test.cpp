#include "common/metrics/metrics.hpp"

#include "tests/support/catch.hpp"

namespace taut::metrics {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("values of one name are one family, with its help and type once", "[metrics]") {
  Scrape scrape;
  scrape.counter("bytes_total", "Bytes.", 5, {{"direction", "in"}});
  scrape.counter("bytes_total", "Bytes.", 7, {{"direction", "out"}});
  scrape.gauge("clock", "A clock.", 3);
  const std::string text = scrape.text();
  INFO(text);
  CHECK(text.find("# TYPE tautline_bytes_total counter") ==
        text.rfind("# TYPE tautline_bytes_total counter"));
  CHECK(has_line(text, "tautline_bytes_total{direction=\"in\"} 5"));
  CHECK(has_line(text, "tautline_bytes_total{direction=\"out\"} 7"));
  CHECK(has_line(text, "# TYPE tautline_clock gauge"));
}

TEST_CASE("a histogram's buckets count everything up to their bound", "[metrics]") {
  Scrape scrape;
  scrape.histogram("staleness_clocks", "Staleness.", {{0, 10}, {2, 5}, {9, 1}}, {0, 1, 4});
  const std::string text = scrape.text();
  INFO(text);
  CHECK(has_line(text, "tautline_staleness_clocks_bucket{le=\"0\"} 10"));
  CHECK(has_line(text, "tautline_staleness_clocks_bucket{le=\"1\"} 10"));
  CHECK(has_line(text, "tautline_staleness_clocks_bucket{le=\"4\"} 15"));
  CHECK(has_line(text, "tautline_staleness_clocks_bucket{le=\"+Inf\"} 16"));
  CHECK(has_line(text, "tautline_staleness_clocks_count 16"));
  CHECK(has_line(text, "tautline_staleness_clocks_sum 19"));
}

TEST_CASE("names that peers chose cannot break the text", "[metrics]") {
  Scrape scrape;
  scrape.gauge("clock", "A clock.", 1, {{"worker", "w\"0\"\n\\"}});
  const std::string text = scrape.text();
  INFO(text);
  CHECK(has_line(text, "tautline_clock{worker=\"w\\\"0\\\"\\n\\\\\"} 1"));
}

}  // namespace
}  // namespace taut::metrics
