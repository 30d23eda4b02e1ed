#include "model/label_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace muster::model {
namespace {

base::Status label_mistake(std::string_view text) {
  return base::invalid_argument(
      "'{}' is not a label: it may hold {{rank}}, {{stream}} and {{time}}; {{{{ and }}}} stand for braces",
      base::printable(text));
}

}  // namespace

LabelFormat::LabelFormat()
    : parts_({{Field::kText, "["}, {Field::kRank}, {Field::kText, "]<"}, {Field::kStream}, {Field::kText, ">:"}}) {}

base::Result<LabelFormat> LabelFormat::parse(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Field>, 3> kFields = {
      {{"{rank}", Field::kRank}, {"{stream}", Field::kStream}, {"{time}", Field::kTime}}};
  if (text.find_first_of("\r\n") != std::string_view::npos) return label_mistake(text);
  std::vector<Part> parts;
  const auto add_text = [&](char c) {
    if (parts.empty() || parts.back().field != Field::kText) parts.push_back({});
    parts.back().text += c;
  };
  for (std::string_view rest = text; !rest.empty();) {
    const auto* const field =
        std::ranges::find_if(kFields, [&](const auto& known) { return rest.starts_with(known.first); });
    if (field != kFields.end()) {
      parts.push_back({field->second});
      rest.remove_prefix(field->first.size());
      continue;
    }
    const bool is_brace = rest.front() == '{' || rest.front() == '}';
    if (is_brace && (rest.size() < 2 || rest[1] != rest[0])) return label_mistake(text);
    add_text(rest.front());
    rest.remove_prefix(is_brace ? 2 : 1);
  }
  return LabelFormat(std::move(parts));
}

void LabelFormat::add_time() {
  if (has_time()) return;
  if (parts_.empty()) parts_.push_back({Field::kText, " "});
  parts_.insert(parts_.begin(), {Field::kTime});
}

bool LabelFormat::has_time() const {
  return std::ranges::find(parts_, Field::kTime, &Part::field) != parts_.end();
}

bool LabelFormat::has_rank() const {
  return std::ranges::find(parts_, Field::kRank, &Part::field) != parts_.end();
}

std::string LabelFormat::label(std::string_view rank, std::string_view stream, std::string_view time) const {
  std::string label;
  for (const Part& part : parts_) {
    switch (part.field) {
      case Field::kText:
        label += part.text;
        break;
      case Field::kRank:
        label += rank;
        break;
      case Field::kStream:
        label += stream;
        break;
      case Field::kTime:
        label += time;
        break;
    }
  }
  return label;
}

}  // namespace muster::model
