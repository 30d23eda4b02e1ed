#include "launcherd/hosts/time_limit.h"

#include <time.h>

#include <string>
#include <vector>

#include "base/strings.h"

namespace muster::launcherd::inline hosts {
namespace {

using base::Result;
using base::WallTime;
using End = std::optional<WallTime>;
using std::chrono::seconds;

constexpr long kMostSeconds = 10L * 366 * 24 * 3600;
constexpr long kLatest = 9'000'000'000;  // in the year 2255; clocks in nanoseconds end in 2262

base::Status not_understood(const std::vector<std::string>& command, std::string_view answer) {
  return base::unavailable("{} answered '{}', which is not a time: leave out --signal, or give --timeout",
                           base::join(command, " "), base::printable(answer.substr(0, 200)));
}

// Parses seconds since 1970 from a variable.
End time_of(std::optional<std::string_view> value) {
  const auto time = value ? base::parse_decimal(*value, kLatest) : std::nullopt;
  return time && *time > 0 ? End(WallTime(seconds(*time))) : std::nullopt;
}

Result<End> ask_slurm(const std::string& job, const AskProgram& ask, WallTime now) {
  const std::vector<std::string> command = {"squeue", "-h", "-j", job, "-o", "%L"};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ask(command));
  const std::string_view left = base::trim(answer);
  if (left == "UNLIMITED" || left == "NOT_SET" || left == "INVALID") return End();
  const auto time = parse_clock_time(left);
  if (!time) return not_understood(command, left);
  return End(now + *time);
}

// Returns "value" of a line "name = value" in the output of qstat -f. Empty if the line is missing.
std::string_view attribute(std::string_view answer, std::string_view name) {
  for (const std::string_view line : base::split(answer, '\n')) {
    const std::string_view trimmed = base::trim(line);
    const auto equals = trimmed.find(" = ");
    if (equals != std::string_view::npos && trimmed.substr(0, equals) == name) return trimmed.substr(equals + 3);
  }
  return {};
}

// Parses local time as ctime() writes it: "Sat Jun 20 17:05:53 2026".
std::optional<WallTime> parse_ctime(std::string_view text) {
  std::tm parts{};
  parts.tm_isdst = -1;
  const std::string copy(text);
  const char* const end = ::strptime(copy.c_str(), "%a %b %d %H:%M:%S %Y", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const std::time_t time = ::mktime(&parts);
  return time == -1 ? std::nullopt : std::optional(std::chrono::system_clock::from_time_t(time));
}

// Adds the limit to the start time, which is exact. The used time is not, because PBS updates it every few minutes.
Result<End> ask_pbs(const std::string& job, const AskProgram& ask, WallTime now) {
  const std::vector<std::string> command = {"qstat", "-f", job};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ask(command));
  const std::string_view limit = attribute(answer, "Resource_List.walltime");
  if (limit.empty()) return End();
  const auto whole = parse_clock_time(limit);
  if (!whole) return not_understood(command, limit);
  if (const auto start = parse_ctime(attribute(answer, "stime"))) return End(*start + *whole);
  const auto used = parse_clock_time(attribute(answer, "resources_used.walltime"));
  return End(now + *whole - used.value_or(seconds(0)));
}

// bjobs prints hours and minutes, and a letter for the source of the value: "1:29 L".
Result<End> ask_lsf(const std::string& job, const AskProgram& ask, WallTime now) {
  const std::vector<std::string> command = {"bjobs", "-noheader", "-o", "time_left", job};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ask(command));
  const std::string_view words = base::trim(answer);
  if (words == "-" || words.empty()) return End();
  std::string left(words.substr(0, words.find(' ')));
  if (base::split(left, ':').size() == 2) left += ":00";
  const auto time = parse_clock_time(left);
  if (!time) return not_understood(command, words);
  return End(now + *time);
}

Result<End> ask_flux(const AskProgram& ask, WallTime now) {
  const std::vector<std::string> command = {"flux", "job", "timeleft"};
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ask(command));
  const std::string_view left = base::trim(answer);
  if (left == "infinity") return End();
  const auto time = base::parse_decimal(left, kMostSeconds);
  if (!time) return not_understood(command, left);
  return End(now + seconds(*time));
}

}  // namespace

std::optional<seconds> parse_clock_time(std::string_view text) {
  constexpr long kMostDays = 3660;
  long total = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto days = base::parse_decimal(text.substr(0, dash), kMostDays);
    if (!days) return std::nullopt;
    total = *days;
    text.remove_prefix(dash + 1);
    if (base::split(text, ':').size() != 3) return std::nullopt;
  }
  const auto parts = base::split(text, ':');
  if (parts.size() > 3) return std::nullopt;
  total *= 24;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = base::parse_decimal(parts[i], kMostSeconds);
    if (!number) return std::nullopt;
    total = i == 0 ? total + *number : total * 60 + *number;
  }
  if (total > kMostSeconds) return std::nullopt;
  return seconds(total);
}

Result<End> allocation_end(const base::Environment& environment, const AskProgram& ask, WallTime now) {
  if (const End end = time_of(environment.get("SLURM_JOB_END_TIME"))) return end;
  if (const End end = time_of(environment.get("COBALT_ENDTIME"))) return end;
  if (const auto job = environment.get("SLURM_JOB_ID"); job && !job->empty()) {
    return ask_slurm(std::string(*job), ask, now);
  }
  if (const auto job = environment.get("PBS_JOBID"); job && !job->empty()) {
    return ask_pbs(std::string(*job), ask, now);
  }
  if (const auto job = environment.get("LSB_JOBID"); job && !job->empty()) {
    return ask_lsf(std::string(*job), ask, now);
  }
  if (const auto uri = environment.get("FLUX_URI"); uri && !uri->empty()) return ask_flux(ask, now);
  return End();
}

}  // namespace muster::launcherd::hosts
