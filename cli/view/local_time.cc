#include "cli/view/local_time.h"

#include <array>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

namespace muster::cli::inline view {
namespace {

// Formats the time as strftime() does.
std::string local_text(base::WallTime time, const char* format) {
  // to_time_t() may round up, so cut to whole seconds first.
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(time));
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 64> text{};
  return std::string(text.data(), std::strftime(text.data(), text.size(), format, &local));
}

}  // namespace

std::string format_local_time(base::WallTime time) {
  return local_text(time, "%Y-%m-%d %H:%M:%S %z");
}

std::string format_local_micros(base::WallTime time) {
  const auto fraction = time - std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(fraction).count();
  return local_text(time, fmt::format("%Y-%m-%d %H:%M:%S.{:06} %z", micros).c_str());
}

std::string format_local_clock(base::WallTime time) {
  return local_text(time, "%H:%M:%S");
}

std::string format_local_zone(base::WallTime time) {
  return local_text(time, "%z");
}

}  // namespace muster::cli::view
