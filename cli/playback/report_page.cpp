#include "cli/playback/report_page.hpp"

#include <fmt/format.h>

#include <string_view>

#include "cli/sweep/report/chart.hpp"
#include "common/check.hpp"

namespace taut::cli {

/// The page's files; the build writes their source (scripts/cmake/embed_files.cmake).
namespace embedded {
extern const std::string_view lab_html;
extern const std::string_view app_css;
extern const std::string_view lab_css;
extern const std::string_view page_js;
extern const std::string_view draw_js;
extern const std::string_view played_js;
extern const std::string_view strip_js;
extern const std::string_view hosts_js;
extern const std::string_view strips_js;
extern const std::string_view glance_js;
extern const std::string_view lab_js;
}  // namespace embedded

namespace {

void put(std::string& page, std::string_view place, const std::string& content) {
  const std::size_t at = page.find(place);
  TAUT_CHECK(at != std::string::npos, "the player's page has this place");
  page.replace(at, place.size(), content);
}

/// JSON that does not end a script element.
std::string in_script(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string figures_section(const std::vector<Figure>& figures) {
  if (figures.empty()) return {};
  std::string html =
      "<section class=\"card wide\" aria-labelledby=\"figures-title\">\n"
      "    <h2 id=\"figures-title\">Figures</h2>\n    <div class=\"figures\">\n";
  for (const Figure& figure : figures) {
    html += fmt::format(
        "<figure data-name=\"{}\"><figcaption>{}<span class=\"space\"></span></figcaption>\n{}"
        "</figure>\n",
        figure.name, escape_html(figure.title), figure.svg);
  }
  return html + "    </div>\n  </section>";
}

}  // namespace

std::string report_page(const PlayedRun& run, const std::vector<Figure>& figures) {
  std::string page(embedded::lab_html);
  const auto style = [](std::string_view css) { return fmt::format("<style>\n{}</style>", css); };
  const auto script = [](std::string_view js) { return fmt::format("<script>\n{}</script>", js); };
  put(page, R"(<link rel="stylesheet" href="/app.css">)", style(embedded::app_css));
  put(page, R"(<link rel="stylesheet" href="/lab.css">)", style(embedded::lab_css));
  put(page, "<!-- figures -->", figures_section(figures));
  put(page, R"(<script src="/page.js"></script>)", script(embedded::page_js));
  put(page, R"(<script src="/draw.js"></script>)", script(embedded::draw_js));
  put(page, R"(<script src="/played.js"></script>)", script(embedded::played_js));
  put(page, R"(<script src="/strip.js"></script>)", script(embedded::strip_js));
  put(page, R"(<script src="/hosts.js"></script>)", script(embedded::hosts_js));
  put(page, R"(<script src="/strips.js"></script>)", script(embedded::strips_js));
  put(page, R"(<script src="/glance.js"></script>)", script(embedded::glance_js));
  put(page, R"(<script src="/lab.js"></script>)", script(embedded::lab_js));
  put(page, "<!-- playback -->",
      fmt::format("<script type=\"application/json\" id=\"playback\">{}</script>",
                  in_script(run.text)));
  return page;
}

}  // namespace taut::cli
