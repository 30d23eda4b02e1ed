// Draws a table of phases as a Mermaid diagram, and compares it with the one in docs/design.md.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace muster::testing_support {

// `next` returns the name of the phase to which an event leads. Empty if the event changes no phase.
template <typename Phases, typename Events, typename Next>
std::string phase_diagram(const Phases& phases, const Events& events, Next next) {
  std::string text = "```mermaid\nstateDiagram-v2\n";
  text += "    [*] --> " + std::string(name_of(phases.front())) + "\n";
  for (const auto& from : phases) {
    std::map<std::string, std::string> arrows;  // events by the phase to which they lead
    for (const auto& event : events) {
      const std::string to(next(from, event));
      if (to.empty()) continue;
      std::string& label = arrows[to];
      label += (label.empty() ? "" : ", ") + std::string(name_of(event));
    }
    for (const auto& to : phases) {  // in the order of the phases
      const auto found = arrows.find(std::string(name_of(to)));
      if (found == arrows.end()) continue;
      text += "    " + std::string(name_of(from)) + " --> " + found->first + ": " + found->second + "\n";
    }
    if (arrows.empty()) text += "    " + std::string(name_of(from)) + " --> [*]\n";
  }
  return text + "```\n";
}

// Fails if the page has another diagram between `<!-- NAME: generated -->` and `<!-- end -->`, and prints the right
// one.
inline void expect_in_design(const std::string& name, const std::string& diagram) {
  std::ifstream file(MUSTER_DESIGN_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::string begin = "<!-- " + name + ": generated -->\n";
  const auto first = text.find(begin);
  const auto last = text.find("<!-- end -->", first == std::string::npos ? 0 : first);
  ASSERT_TRUE(first != std::string::npos && last != std::string::npos) << "docs/design.md needs the line\n" << begin;
  const std::string on_page = text.substr(first + begin.size(), last - first - begin.size());
  EXPECT_EQ(on_page, diagram) << "docs/design.md needs this text after " << begin << diagram;
}

}  // namespace muster::testing_support
