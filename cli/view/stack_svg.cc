#include "cli/view/stack_svg.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "cli/view/stack_classes.h"
#include "cli/view/svg_text.h"

namespace muster::cli::inline view {
namespace {

constexpr double kWidth = 1200;
constexpr int kRow = 18;
constexpr double kNarrowest = 0.25;  // narrower calls are not drawn
constexpr std::size_t kMaxRemarks = 20;

class FlameGraph {
 public:
  FlameGraph(const CallNode& root, int looks)
      : scale_(root.threads == 0 ? 0 : kWidth / root.threads), total_(root.threads), looks_(looks) {
    draw_children(root, 0, 0);
  }

  // Writes a line of text below the calls.
  void add_remark(const std::string& text) {
    body_ += fmt::format("<text x=\"3\" y=\"{}\">{}<title>{}</title></text>\n", rows_ * kRow + 13,
                         escape_markup(fitting_text(text, kWidth)), escape_markup(text));
    ++rows_;
  }

  std::string document() const {
    const int height = std::max(rows_, 1) * kRow;
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"monospace\" font-size=\"12\">\n{2}</svg>\n",
        static_cast<int>(kWidth), height, body_);
  }

 private:
  void draw_children(const CallNode& node, double x, int depth) {
    for (const auto& [call, child] : node.children) {
      draw(call, child, x, depth);
      x += child.threads * scale_;
    }
  }

  void draw(const std::string& call, const CallNode& node, double x, int depth) {
    const double width = node.threads * scale_;
    if (width < kNarrowest) return;
    rows_ = std::max(rows_, depth + 1);
    const int y = depth * kRow;
    std::string title =
        fmt::format("{}: {}, {}", call, format_rank_set(node.ranks), format_threads(node.threads, total_, looks_));
    if (!node.inexact.empty()) title += fmt::format("; inexact here: {}", format_rank_set(node.inexact));
    // The colour depends on the call alone, so that equal calls look alike.
    const std::size_t hue = std::hash<std::string>()(call) % 55;
    body_ += fmt::format(
        "<g><title>{}</title><rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"hsl({},80%,65%)\" "
        "stroke=\"white\"/><text x=\"{:.2f}\" y=\"{}\">{}</text></g>\n",
        escape_markup(title), x, y, width, kRow, hue, x + 3, y + 13, escape_markup(fitting_text(call, width - 6)));
    draw_children(node, x, depth + 1);
  }

  const double scale_;
  const int total_;
  const int looks_;
  int rows_ = 0;
  std::string body_;
};

}  // namespace

std::string stack_svg(const std::vector<v1::ProcessStack>& processes) {
  return stack_svg(classify_stacks(processes));
}

std::string stack_svg(const StackClasses& all) {
  FlameGraph graph(call_tree(all.classes), all.looks);
  std::vector<std::string> remarks = all.problems;
  std::ranges::move(stack_problems(all.classes), std::back_inserter(remarks));
  for (std::size_t i = 0; i < std::min(remarks.size(), kMaxRemarks); ++i) graph.add_remark(remarks[i]);
  if (remarks.size() > kMaxRemarks) {
    graph.add_remark(fmt::format("{} other remarks are left out", remarks.size() - kMaxRemarks));
  }
  return graph.document();
}

}  // namespace muster::cli::view
