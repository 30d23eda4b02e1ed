// All of parameters.h. The first half parses and shows single values; cut() splits a text at its braces.
// Read check_value(), then fill_pieces().
#include "job_templates/parameters.h"

#include <algorithm>

#include "base/strings.h"
#include "job_templates/schema.h"

namespace muster::job_templates {
namespace {

using base::Result;
using base::Status;
using std::chrono::seconds;

constexpr seconds kLongest{366L * 24 * 3600};

std::optional<long> parse_integer(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const auto number = base::parse_decimal(text.substr(is_negative ? 1 : 0), kMostNumber);
  return number && is_negative ? std::optional(-*number) : number;
}

// Parses "0:30:00" or "30:00:00"; nullopt if the form differs.
std::optional<seconds> parse_clock(std::string_view text) {
  const auto parts = base::split(text, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto hours = base::parse_decimal(parts[0], 9999);
  const auto minutes = base::parse_decimal(parts[1], 59);
  const auto rest = base::parse_decimal(parts[2], 59);
  if (!hours || !minutes || !rest || parts[1].size() != 2 || parts[2].size() != 2) return std::nullopt;
  return seconds(*hours * 3600 + *minutes * 60 + *rest);
}

// Parses "1h30m".
std::optional<seconds> parse_units(std::string_view text) {
  constexpr std::string_view kUnits = "dhms";
  constexpr long kSeconds[] = {24L * 3600, 3600, 60, 1};
  std::size_t next = 0;  // units must go from long to short
  seconds total{0};
  while (!text.empty()) {
    const auto digits = text.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos) return std::nullopt;
    const auto number = base::parse_decimal(text.substr(0, digits), kMostNumber);
    const auto unit = kUnits.find(text[digits], next);
    if (!number || unit == std::string_view::npos) return std::nullopt;
    total += seconds(*number * kSeconds[unit]);
    if (total > kLongest) return std::nullopt;
    next = unit + 1;
    text.remove_prefix(digits + 1);
  }
  return total;
}

std::string format_time(seconds time, std::string_view format) {
  const long all = time.count();
  if (format == "seconds") return fmt::format("{}", all);
  if (format == "minutes") return fmt::format("{}", (all + 59) / 60);
  if (format == "units") return fmt::format("{}s", all);
  if (format == "hm") return fmt::format("{}:{:02}", (all + 59) / 3600, (all + 59) / 60 % 60);
  return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

// A part of a text: literal text, or a parameter with its format.
struct Part {
  std::string text;
  bool is_parameter = false;
  std::string format = {};
};

Result<std::vector<Part>> cut(const Text& text) {
  std::vector<Part> parts(1);
  const std::string& all = text.text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const char c = all[i];
    if (c != '{' && c != '}') {
      parts.back().text += c;
      continue;
    }
    if (i + 1 < all.size() && all[i + 1] == c) {
      parts.back().text += c;
      ++i;
      continue;
    }
    const auto close = c == '{' ? all.find('}', i) : std::string::npos;
    if (close == std::string::npos) {
      return error_at(text.place, fmt::format("'{}' has a '{}' that belongs to no {{parameter}}: write {}{}",
                                              base::printable(all), c, c, c));
    }
    const std::string inside = all.substr(i + 1, close - i - 1);
    const auto colon = inside.find(':');
    parts.push_back({inside.substr(0, colon), true, colon == std::string::npos ? "" : inside.substr(colon + 1)});
    parts.emplace_back();
    i = close;
  }
  return parts;
}

bool has_format(ParameterType type, std::string_view format) {
  if (format.empty()) return true;
  return type == ParameterType::kTime &&
         (format == "hms" || format == "hm" || format == "minutes" || format == "seconds");
}

std::string show(const Parameter& parameter, const std::string& value, const std::string& format) {
  if (parameter.type == ParameterType::kBool) return parse_switch(value).value_or(false) ? "true" : "false";
  if (parameter.type != ParameterType::kTime) return value;
  const auto time = parse_walltime(value);
  return time.ok() ? format_time(*time, format) : value;
}

std::string nearest_of(std::string_view word, const std::vector<std::string>& words) {
  const auto nearest = base::nearest_word(word, words);
  return nearest ? fmt::format(", did you mean {}?", *nearest) : "";
}

std::vector<std::string> names_of(const Template& job_template) {
  std::vector<std::string> names;
  for (const Parameter& parameter : job_template.parameters) names.push_back(parameter.name);
  return names;
}

}  // namespace

Status unknown_parameter(const Template& job_template, std::string_view name, std::string_view label) {
  return base::invalid_argument("{}: the template {} has no parameter '{}'{} (muster templates show {} lists them)",
                                label, job_template.name, base::printable(name),
                                nearest_of(name, names_of(job_template)), job_template.name);
}

Status check_value(const Parameter& parameter, std::string_view value, std::string_view label) {
  const auto fail = [&](std::string_view what) {
    return base::invalid_argument("{} must be {}, not '{}'", label, what, base::printable(value));
  };
  if (std::ranges::any_of(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    return fail("text without line breaks and control characters");
  }
  switch (parameter.type) {
    case ParameterType::kString:
      return value.empty() ? fail("some text") : base::ok_status();
    case ParameterType::kInt:
      if (const auto number = parse_integer(value); !number || *number < parameter.min || *number > parameter.max) {
        return fail(parameter.max == kMostNumber
                        ? fmt::format("a whole number from {}", parameter.min)
                        : fmt::format("a whole number from {} to {}", parameter.min, parameter.max));
      }
      return base::ok_status();
    case ParameterType::kTime:
      return parse_walltime(value).status().with_context(label);
    case ParameterType::kChoice:
      if (std::ranges::find(parameter.choices, value) == parameter.choices.end()) {
        return fail("one of " + base::join(parameter.choices, ", "));
      }
      return base::ok_status();
    case ParameterType::kBool:
      return parse_switch(value) ? base::ok_status() : fail("true or false");
  }
  return base::ok_status();
}

Status Values::set(std::string_view name, std::string_view value, std::string_view label) {
  const Parameter* parameter = template_->parameter(name);
  if (parameter == nullptr) return unknown_parameter(*template_, name, label);
  MUSTER_RETURN_IF_ERROR(check_value(*parameter, value, label));
  given_[std::string(name)] = value;
  return base::ok_status();
}

Status Values::check_complete() const {
  std::vector<std::string> missing;
  for (const Parameter& parameter : template_->parameters) {
    if (parameter.is_required && !get(parameter.name)) {
      missing.push_back(parameter.help.empty() ? "--" + parameter.name
                                               : fmt::format("--{} ({})", parameter.name, parameter.help));
    }
  }
  if (missing.empty()) return base::ok_status();
  return base::invalid_argument("the template {} needs {}", template_->name, base::join(missing, ", "));
}

std::optional<std::string> Values::get(std::string_view name) const {
  if (const auto found = given_.find(std::string(name)); found != given_.end()) return found->second;
  const Parameter* parameter = template_->parameter(name);
  return parameter == nullptr ? std::nullopt : parameter->standard;
}

Result<seconds> parse_walltime(std::string_view text) {
  const auto clock = parse_clock(text);
  const auto time = clock ? clock : parse_units(text);
  if (!time || time->count() == 0 || *time > kLongest) {
    return base::invalid_argument("'{}' is not a time: write it with a unit, as 30m, 1h30m or 7d, or as 0:30:00",
                                  base::printable(text));
  }
  return *time;
}

Result<std::vector<std::string>> parameters_in(const Text& text, const Template& job_template,
                                               const std::vector<std::string>& also_known) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Part> parts, cut(text));
  std::vector<std::string> names;
  for (const Part& part : parts) {
    if (!part.is_parameter || std::ranges::find(also_known, part.text) != also_known.end()) continue;
    const Parameter* parameter = job_template.parameter(part.text);
    if (parameter == nullptr) {
      return error_at(text.place, fmt::format("unknown parameter '{}'{}", base::printable(part.text),
                                              nearest_of(part.text, names_of(job_template))));
    }
    if (!has_format(parameter->type, part.format)) {
      return error_at(text.place, fmt::format("{{{}:{}}}: unknown format; times have minutes, seconds, hm, hms",
                                              part.text, base::printable(part.format)));
    }
    names.push_back(part.text);
  }
  return names;
}

Result<std::optional<std::vector<FilledPiece>>> fill_pieces(const Text& text, const Values& values,
                                                            FillOptions options) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Part> parts, cut(text));
  std::vector<FilledPiece> pieces;
  for (const Part& part : parts) {
    const Parameter* parameter = part.is_parameter ? values.of().parameter(part.text) : nullptr;
    if (parameter == nullptr) {
      // Keep a name that is no parameter, because the caller replaces it (role texts have such names).
      pieces.push_back({part.text, part.is_parameter});
      continue;
    }
    const auto value = values.get(part.text);
    if (!value) return std::optional<std::vector<FilledPiece>>();
    std::string shown =
        show(*parameter, *value, part.format.empty() && options.times_in_seconds ? "units" : part.format);
    if (options.use != nullptr) {
      MUSTER_ASSIGN_OR_RETURN(shown, options.use(part.text, shown));
    }
    pieces.push_back({std::move(shown), false});
  }
  return std::optional(std::move(pieces));
}

Result<std::optional<std::string>> fill(const Text& text, const Values& values, FillOptions options) {
  MUSTER_ASSIGN_OR_RETURN(const auto pieces, fill_pieces(text, values, options));
  if (!pieces) return std::optional<std::string>();
  std::string result;
  for (const FilledPiece& piece : *pieces) result += piece.is_name ? fmt::format("{{{}}}", piece.text) : piece.text;
  return std::optional(std::move(result));
}

}  // namespace muster::job_templates
