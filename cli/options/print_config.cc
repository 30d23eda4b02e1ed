#include "cli/options/print_config.h"

#include <algorithm>

#include "base/strings.h"

namespace muster::cli::inline options {
namespace {

constexpr std::size_t kCommentColumn = 44;

std::string yaml_quoted(std::string_view value) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-=";
  const bool is_plain = value.find_first_not_of(kPlain) == std::string_view::npos && value.front() != '-' &&
                        value.front() != '=' && value != "null" && value != "Null" && value != "NULL";
  if (is_plain) return std::string(value);
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += fmt::format("\\{}", c);
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string line_of(const std::string& text, std::string_view comment) {
  return fmt::format("{:<{}}  # {}\n", text, kCommentColumn, base::printable(comment));
}

std::string show(const Flag& flag, std::string_view key, const std::string& indent, const Settings& settings) {
  const std::vector<const Setting*> given = settings.all(flag.name);
  if (given.empty()) {
    return flag.standard.empty() ? line_of(fmt::format("{}{}: ~", indent, key), "not set")
                                 : line_of(fmt::format("{}{}: {}", indent, key, yaml_quoted(flag.standard)), "default");
  }
  if (flag.name == "env") {
    std::string names;
    for (const Setting* setting : given) {
      const std::string name = setting->value.substr(0, setting->value.find('='));
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, setting->origin);
    }
    return fmt::format("{}# {}: {}; values are not shown\n", indent, key, base::printable(names));
  }
  if (flag.repeat == Repeat::kLastCounts) {
    return line_of(fmt::format("{}{}: {}", indent, key, yaml_quoted(given.front()->value)), given.front()->origin);
  }
  std::string text = fmt::format("{}{}:\n", indent, key);
  for (const Setting* setting : given) {
    text += line_of(fmt::format("{}  - {}", indent, yaml_quoted(setting->value)), setting->origin);
  }
  return text;
}

}  // namespace

std::string format_settings(const Settings& settings, const FlagTable& table) {
  std::string text;
  std::vector<std::string> sections;
  for (const Flag& flag : table.flags()) {
    if (!flag.is_setting()) continue;
    const auto dot = flag.config_key.find('.');
    if (dot == std::string::npos) {
      text += show(flag, flag.config_key, "", settings);
    } else if (const std::string section = flag.config_key.substr(0, dot);
               std::ranges::find(sections, section) == sections.end()) {
      sections.push_back(section);
    }
  }
  for (const std::string& section : sections) {
    text += section + ":\n";
    for (const Flag& flag : table.flags()) {
      if (!flag.config_key.starts_with(section + ".")) continue;
      text += show(flag, std::string_view(flag.config_key).substr(section.size() + 1), "  ", settings);
    }
  }
  return text;
}

}  // namespace muster::cli::options
