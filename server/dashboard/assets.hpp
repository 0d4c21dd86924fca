#pragma once

#include <string>
#include <string_view>

namespace taut::dashboard {

/// The files' bytes; the build writes their source (scripts/cmake/embed_files.cmake).
namespace embedded {
extern const std::string_view index_html;
extern const std::string_view app_css;
extern const std::string_view app_js;
extern const std::string_view charts_js;
extern const std::string_view commands_js;
extern const std::string_view draw_js;
extern const std::string_view job_js;
extern const std::string_view page_js;
extern const std::string_view series_js;
extern const std::string_view tables_js;
extern const std::string_view words_js;
extern const std::string_view lab_html;
extern const std::string_view lab_css;
extern const std::string_view glance_js;
extern const std::string_view hosts_js;
extern const std::string_view lab_js;
extern const std::string_view played_js;
extern const std::string_view strip_js;
extern const std::string_view strips_js;
extern const std::string_view uPlot_iife_min_js;
extern const std::string_view uPlot_min_css;
}  // namespace embedded

/// A file of the page, built into the program.
struct Asset {
  const char* type;
  std::string_view bytes;
};

/// The file at a path ("/", "/app.js", ...), or nullptr.
[[nodiscard]] const Asset* asset(std::string_view path);

}  // namespace taut::dashboard
