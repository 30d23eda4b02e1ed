// Reads settings as what they are meant to be: numbers, times, words. The first mistake is kept, as a sentence that
// begins with where the value comes from; after it the rest is not read. What nobody has set leaves its target alone.
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
  // Not negative, at most `max`; "3", "3.5", "1e-3".
  void real(std::string_view name, double max, std::optional<double>& into);
  void time(std::string_view name, std::chrono::milliseconds min, std::chrono::milliseconds& into);
  void time(std::string_view name, std::chrono::milliseconds min, std::optional<std::chrono::milliseconds>& into);

  // `meanings` in the order of the table's choices.
  template <typename T>
  void choice(std::string_view name, const std::vector<T>& meanings, T& into) {
    if (const auto index = choice_index(name, meanings.size())) into = meanings[*index];
  }
  // One of the table's choices, as the word itself.
  void word(std::string_view name, std::string& into);

  // Whatever else: `read` gets each setting of the option; its error should begin with the setting's label.
  void custom(std::string_view name, const std::function<base::Status(const Setting&)>& read);

 private:
  std::optional<std::size_t> choice_index(std::string_view name, std::size_t count);
  const Setting* next(std::string_view name) const { return status_.ok() ? settings_.find(name) : nullptr; }
  void fail(const Setting& setting, const std::string& problem);

  const Settings& settings_;
  base::Status status_;
};

// "30", "30s", "5m", "1.5h", "500ms"; without a unit seconds. Not negative, at most ten years, whole milliseconds (the
// rest is rounded up).
base::Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// NAME or NAME=VALUE of an environment variable.
base::Status check_variable(const std::string& named);

// "true" or "false", "yes" or "no", "on" or "off", "1" or "0", in any case.
std::optional<bool> parse_toggle(std::string_view text);

}  // namespace muster::cli::options
