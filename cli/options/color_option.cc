#include "cli/options/color_option.h"

#include <algorithm>
#include <array>

#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {
namespace {

constexpr std::array kMeanings = {ColorWhen::kAuto, ColorWhen::kAlways, ColorWhen::kNever};

ColorWhen color_named(const Flag& flag, std::string_view value) {
  const auto found = std::ranges::find(flag.choices, value);
  return found == flag.choices.end() ? ColorWhen::kAuto
                                     : kMeanings[static_cast<std::size_t>(found - flag.choices.begin())];
}

}  // namespace

FlagRow color_row() {
  return option("color", {"--color"}, "auto|always|never",
                "Whether help, errors and the rank that failed are shown in colors. auto: on a terminal, unless "
                "NO_COLOR is set. The ranks' own output is never changed.")
      .standard("auto")
      .command_line_only();
}

base::Result<ColorWhen> read_color(const Settings& settings) {
  ColorWhen when = ColorWhen::kAuto;
  SettingReader read(settings);
  read.choice("color", {kMeanings.begin(), kMeanings.end()}, when);
  MUSTER_RETURN_IF_ERROR(read.status());
  return when;
}

ColorWhen typed_color(const std::vector<std::string>& words, const FlagTable& table, OptionsEnd end) {
  ColorWhen when = ColorWhen::kAuto;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--") break;
    const bool is_option_word = word.size() > 1 && word.front() == '-';
    if (!is_option_word && end == OptionsEnd::kAtFirstWord) break;
    const std::size_t equals = word.find('=');
    const auto match = is_option_word ? table.find(std::string_view(word).substr(0, equals)) : std::nullopt;
    if (!match || !match->spelling->value.empty()) continue;
    const bool is_attached = equals != std::string::npos;
    if (match->flag->name == "color" && (is_attached || at + 1 < words.size())) {
      when = color_named(*match->flag, is_attached ? std::string_view(word).substr(equals + 1) : words[at + 1]);
    }
    if (!is_attached) at += static_cast<std::size_t>(match->flag->values);
  }
  return when;
}

bool is_help(const ParsedOption& option) {
  return option.flag->name == "help" || option.flag->name == "short-help";
}

}  // namespace muster::cli::options
