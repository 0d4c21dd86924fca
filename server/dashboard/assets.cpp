#include "server/dashboard/assets.hpp"

#include <array>
#include <utility>

namespace taut::dashboard {

const Asset* asset(std::string_view path) {
  static const std::array<std::pair<std::string_view, Asset>, 21> kAssets{{
      {"/", {"text/html; charset=utf-8", embedded::index_html}},
      {"/app.css", {"text/css; charset=utf-8", embedded::app_css}},
      {"/app.js", {"text/javascript; charset=utf-8", embedded::app_js}},
      {"/charts.js", {"text/javascript; charset=utf-8", embedded::charts_js}},
      {"/commands.js", {"text/javascript; charset=utf-8", embedded::commands_js}},
      {"/draw.js", {"text/javascript; charset=utf-8", embedded::draw_js}},
      {"/job.js", {"text/javascript; charset=utf-8", embedded::job_js}},
      {"/page.js", {"text/javascript; charset=utf-8", embedded::page_js}},
      {"/series.js", {"text/javascript; charset=utf-8", embedded::series_js}},
      {"/tables.js", {"text/javascript; charset=utf-8", embedded::tables_js}},
      {"/words.js", {"text/javascript; charset=utf-8", embedded::words_js}},
      {"/lab", {"text/html; charset=utf-8", embedded::lab_html}},
      {"/lab.css", {"text/css; charset=utf-8", embedded::lab_css}},
      {"/glance.js", {"text/javascript; charset=utf-8", embedded::glance_js}},
      {"/hosts.js", {"text/javascript; charset=utf-8", embedded::hosts_js}},
      {"/lab.js", {"text/javascript; charset=utf-8", embedded::lab_js}},
      {"/played.js", {"text/javascript; charset=utf-8", embedded::played_js}},
      {"/strip.js", {"text/javascript; charset=utf-8", embedded::strip_js}},
      {"/strips.js", {"text/javascript; charset=utf-8", embedded::strips_js}},
      {"/uplot.js", {"text/javascript; charset=utf-8", embedded::uPlot_iife_min_js}},
      {"/uplot.css", {"text/css; charset=utf-8", embedded::uPlot_min_css}},
  }};
  for (const auto& [where, file] : kAssets) {
    if (where == path) return &file;
  }
  return nullptr;
}

}  // namespace taut::dashboard
