// Converts settings into numbers, times and words.
// Errors: the first mistake is kept as a sentence that begins with the origin of the value. Later calls then read
// nothing.
// If no source sets an option, its target stays unchanged.
// Example:
//
//   SettingReader read(settings);
//   read.number("ssh-port", 1, 65535, options.port);
//   read.time("timeout", milliseconds(1), job.timeout);
//   MUSTER_RETURN_IF_ERROR(read.status());
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/options/settings.h"

namespace muster::cli::inline options {

class SettingReader {
 public:
  explicit SettingReader(const Settings& settings) : settings_(settings) {}

  const base::Status& status() const { return status_; }

  void toggle(std::string_view name, bool& into);
  void toggle(std::string_view name, std::optional<bool>& into);
  void text(std::string_view name, std::string& into);
  void number(std::string_view name, long min, long max, int& into);
  void number(std::string_view name, long min, long max, std::optional<long>& into);
  // Reads a number from 0 to `max`, such as "3", "3.5" or "1e-3".
  void real(std::string_view name, double max, std::optional<double>& into);
  void time(std::string_view name, std::chrono::milliseconds min, std::chrono::milliseconds& into);
  void time(std::string_view name, std::chrono::milliseconds min, std::optional<std::chrono::milliseconds>& into);

  // `meanings` has one value for each choice of the table, in the same order.
  template <typename T>
  void choice(std::string_view name, const std::vector<T>& meanings, T& into) {
    if (const auto index = choice_index(name, meanings.size())) into = meanings[*index];
  }
  // Reads one of the table's choices as the word itself.
  void word(std::string_view name, std::string& into);

  // Reads an option of any other type. `read` gets each setting of the option. Its error should begin with the
  // setting's label.
  void custom(std::string_view name, const std::function<base::Status(const Setting&)>& read);

 private:
  std::optional<std::size_t> choice_index(std::string_view name, std::size_t count);
  const Setting* next(std::string_view name) const { return status_.ok() ? settings_.find(name) : nullptr; }
  void fail(const Setting& setting, const std::string& problem);

  const Settings& settings_;
  base::Status status_;
};

// Parses "30", "30s", "5m", "1.5h" or "500ms". Without a unit the number means seconds. The time is not negative and at
// most ten years. A fraction of a millisecond is rounded up.
base::Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// Checks the NAME in NAME or NAME=VALUE as the name of an environment variable.
base::Status check_variable(const std::string& named);

// Parses "true" or "false", "yes" or "no", "on" or "off", "1" or "0", in any case. nullopt for any other word.
std::optional<bool> parse_toggle(std::string_view text);

}  // namespace muster::cli::options
