// This file converts text into values: first the methods of SettingReader, then the parsers that they share.
// Read toggle(), number() and time() first. choice_index() serves choice() and word(); parse_duration() serves time().
#include "cli/options/setting_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "cli/help/base_names.h"

namespace muster::cli::inline options {

void SettingReader::fail(const Setting& setting, const std::string& problem) {
  status_ = base::invalid_argument("{} {}", setting.label, problem);
}

void SettingReader::toggle(std::string_view name, std::optional<bool>& into) {
  const Setting* setting = next(name);
  if (setting == nullptr) return;
  const auto value = parse_toggle(setting->value);
  if (!value) {
    fail(*setting, fmt::format("must be true or false, not '{}'", base::printable(setting->value)));
    return;
  }
  into = value;
}

void SettingReader::toggle(std::string_view name, bool& into) {
  std::optional<bool> value;
  toggle(name, value);
  into = value.value_or(into);
}

void SettingReader::text(std::string_view name, std::string& into) {
  if (const Setting* setting = next(name)) into = setting->value;
}

void SettingReader::number(std::string_view name, long min, long max, std::optional<long>& into) {
  const Setting* setting = next(name);
  if (setting == nullptr) return;
  const auto value = base::parse_decimal(setting->value, max);
  if (!value || *value < min) {
    fail(*setting, fmt::format("must be a number from {} to {}, not '{}'", min, max, base::printable(setting->value)));
    return;
  }
  into = *value;
}

void SettingReader::number(std::string_view name, long min, long max, int& into) {
  std::optional<long> value;
  number(name, min, max, value);
  if (value) into = static_cast<int>(*value);
}

void SettingReader::real(std::string_view name, double max, std::optional<double>& into) {
  const Setting* setting = next(name);
  if (setting == nullptr) return;
  double value = 0;
  const char* const end = setting->value.data() + setting->value.size();
  const auto read = std::from_chars(setting->value.data(), end, value);
  // from_chars accepts "inf" and "nan", too; refuse them.
  const bool is_number = read.ec == std::errc() && read.ptr == end && std::isfinite(value) && !std::signbit(value);
  if (!is_number || value > max) {
    fail(*setting, fmt::format("must be a number from 0 to {:g}, not '{}'", max, base::printable(setting->value)));
    return;
  }
  into = value;
}

void SettingReader::time(std::string_view name, std::chrono::milliseconds min,
                         std::optional<std::chrono::milliseconds>& into) {
  const Setting* setting = next(name);
  if (setting == nullptr) return;
  const auto value = parse_duration(setting->value);
  if (!value.ok()) {
    status_ = value.status().with_context(setting->label);
  } else if (*value < min) {
    fail(*setting, fmt::format("must be more than 0, not '{}'", setting->value));
  } else {
    into = *value;
  }
}

void SettingReader::time(std::string_view name, std::chrono::milliseconds min, std::chrono::milliseconds& into) {
  std::optional<std::chrono::milliseconds> value;
  time(name, min, value);
  if (value) into = *value;
}

std::optional<std::size_t> SettingReader::choice_index(std::string_view name, std::size_t count) {
  const Setting* setting = next(name);
  if (setting == nullptr) return std::nullopt;
  const std::vector<std::string_view>& choices = setting->flag->choices;
  MUSTER_CHECK(choices.size() == count);
  const auto found = std::ranges::find(choices, setting->value);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::vector<std::string> words(choices.begin(), choices.end());
  fail(*setting, fmt::format("must be one of {}, not '{}'", base::join(words, ", "), base::printable(setting->value)));
  return std::nullopt;
}

void SettingReader::word(std::string_view name, std::string& into) {
  const Setting* setting = next(name);
  if (setting == nullptr) return;
  if (const auto index = choice_index(name, setting->flag->choices.size())) {
    into = std::string(setting->flag->choices[*index]);
  }
}

void SettingReader::custom(std::string_view name, const std::function<base::Status(const Setting&)>& read) {
  for (const Setting* setting : settings_.all(name)) {
    if (!status_.ok()) return;
    status_ = read(*setting);
  }
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, long>, 4> kUnits = {
      {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};
  constexpr long kMost = 10L * 366 * 24 * 3'600'000;
  const auto fail = [&] {
    return base::invalid_argument("'{}' is not a time: write it as 30, 30s, 5m, 1.5h or 500ms", base::printable(text));
  };
  const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  const std::string_view unit = end == text.size() ? "s" : text.substr(end);
  const auto* found = std::ranges::find(kUnits, unit, [](const auto& known) { return known.first; });
  if (found == kUnits.end()) return fail();
  const auto dot = number.find('.');
  const auto whole = base::parse_decimal(number.substr(0, dot), kMost);
  if (!whole) return fail();
  long total = *whole;
  if (total > kMost / found->second) return fail();
  total *= found->second;
  if (dot != std::string_view::npos) {
    const std::string_view digits = number.substr(dot + 1, 12);
    const auto fraction = base::parse_decimal(digits, 999'999'999'999);
    if (!fraction || number.find('.', dot + 1) != std::string_view::npos) return fail();
    const double part = static_cast<double>(*fraction) / std::pow(10.0, static_cast<double>(digits.size()));
    total += static_cast<long>(std::ceil(part * static_cast<double>(found->second) - 1e-6));
  }
  return std::chrono::milliseconds(total);
}

base::Status check_variable(const std::string& named) {
  const std::string name = named.substr(0, named.find('='));
  const bool is_clean = std::ranges::none_of(name, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (!name.empty() && is_clean) return base::ok_status();
  return base::invalid_argument("'{}' is not the name of an environment variable: write NAME or NAME=VALUE",
                                base::printable(name));
}

std::optional<bool> parse_toggle(std::string_view text) {
  std::string word(text);
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

}  // namespace muster::cli::options
