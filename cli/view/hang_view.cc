// All of hang_view.h. Read format_hang() first, then class_lines().
#include "cli/view/hang_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/shortened.h"
#include "base/strings.h"
#include "cli/view/report.h"
#include "model/exit_report.h"
#include "model/hang_doing.h"
#include "model/host_ranges.h"

namespace muster::cli::inline view {
namespace {

constexpr std::size_t kMostClasses = 6;
constexpr std::size_t kMostNcclLines = 2;
constexpr std::size_t kMostLastLine = 60;
constexpr std::size_t kMostRanks = 40;  // bytes of a list of ranks

std::string operation_text(const model::CollectivePlace& at) {
  const std::string name = at.name.empty() ? "" : fmt::format(" \"{}\"", base::printable(at.name));
  const std::string number = fmt::format(", operation {}", at.begun);
  if (at.begun == 0) return "before its first operation of libmuster";
  return fmt::format("{} {}{}{}", at.is_open() ? "in" : "after", base::printable(at.operation), name, number);
}

std::string torch_text(const model::TorchCollective& torch) {
  const std::string group = torch.group.empty() ? "" : " of group " + base::printable(torch.group);
  return fmt::format("{} {} {}{}", torch.is_open() ? "in" : "after", base::printable(torch.operation), torch.sequence,
                     group);
}

std::string time_text(const std::optional<std::int64_t>& ms) {
  return ms && *ms >= 1000 ? " for " + format_silence(std::chrono::milliseconds(*ms)) : "";
}

// Returns what the rank waits for: "state D for 118 s in nfs_wait_bit_killable".
std::string state_text(const model::RankEvidence& rank) {
  if (rank.fully_stopped) return "stopped by a signal" + time_text(rank.state_ms);
  const std::string channel = rank.wait_channel.empty() ? "" : " in " + base::printable(rank.wait_channel);
  if (rank.state == "D") return fmt::format("state D{}{}", time_text(rank.state_ms), channel);
  if (rank.state == "R") return rank.moving ? "runs different lines" : "runs";
  if (rank.state == "S") return fmt::format("sleeps{}{}", time_text(rank.state_ms), channel);
  return rank.state.empty() ? "" : "state " + base::printable(rank.state) + channel;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string list = model::format_rank_list(ranks);
  if (list.size() > kMostRanks) list = list.substr(0, list.rfind(',', kMostRanks)) + ",…";
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list);
}

std::string class_title(const model::HangClass& place) {
  const model::RankEvidence& example = place.example;
  std::vector<std::string> facts;
  if (place.ranks.size() == 1) {
    facts.push_back(example.pid == 0 ? base::printable(example.host)
                                     : fmt::format("{}, pid {}", base::printable(example.host), example.pid));
  } else {
    facts.push_back(plural(static_cast<int>(place.ranks.size()), "rank", "ranks"));
  }
  if (const std::string state = state_text(example); !state.empty()) facts.push_back(state);
  if (example.collective) facts.push_back(operation_text(*example.collective));
  if (example.torch) facts.push_back(torch_text(*example.torch));
  if (!example.awaits.empty()) {
    facts.push_back(fmt::format("waits for {}{}", base::printable(example.awaits), time_text(example.awaits_ms)));
  }
  if (!example.python_source.empty()) facts.push_back("read by " + base::printable(example.python_source));
  if (!example.problem.empty()) facts.push_back(base::printable(example.problem));
  return fmt::format("{}  {}: {}", place.suspect ? "suspect" : "others ", ranks_text(place.ranks),
                     base::join(facts, "; "));
}

// Returns "main (train.py:212) > load_batch (data.py:88)". If that is too long, calls in the middle are left out.
std::string calls_text(const model::RankEvidence& rank, std::size_t columns) {
  std::vector<std::string> calls;
  for (const model::PythonCall& call : rank.python) calls.push_back(base::printable(model::text_of(call)));
  std::ranges::reverse(calls);
  if (!rank.native.empty()) calls.push_back(base::printable(rank.native));
  constexpr std::string_view kBetween = " > ";
  std::string text = base::join(calls, kBetween);
  const std::string first = calls.empty() ? "" : calls.front();
  while (text.size() > columns && calls.size() > 2) {
    calls.erase(calls.begin() + 1);
    text = first + " > … > " + base::join(std::span(calls).subspan(1), kBetween);
  }
  return text;
}

// At most three lines.
std::vector<std::string> class_lines(const model::HangClass& place, std::size_t columns) {
  constexpr std::string_view kIndent = "         ";
  std::vector<std::string> lines = {class_title(place)};
  const std::string calls = calls_text(place.example, columns - kIndent.size());
  if (!calls.empty()) lines.push_back(fmt::format("{}{}", kIndent, calls));
  if (place.suspect && !place.example.last_line.empty()) {
    const std::string ago =
        place.example.silent_ms
            ? fmt::format(" {} ago", format_silence(std::chrono::milliseconds(*place.example.silent_ms)))
            : "";
    lines.push_back(fmt::format("{}last output{}: {}", kIndent, ago,
                                base::shortened(base::printable(place.example.last_line), kMostLastLine)));
  }
  return lines;
}

std::string title(const model::HangReport& report, bool is_asked_for) {
  const std::string looked = fmt::format("{} of {} ranks were looked at in {:.1f} s", report.answered, report.size,
                                         static_cast<double>(report.looked_ms) / 1000);
  if (is_asked_for) return looked;
  const std::string generation = report.generation > 0 ? fmt::format(", generation {}", report.generation) : "";
  return fmt::format("the job seems to hang: no progress for {} ({}{})",
                     format_silence(std::chrono::milliseconds(report.silent_ms)), looked, generation);
}

std::vector<std::string> nccl_lines(const std::vector<model::NcclFinding>& findings) {
  std::vector<std::string> lines;
  for (const model::NcclFinding& finding : findings) {
    if (lines.size() + 1 == kMostNcclLines && findings.size() > kMostNcclLines) {
      lines.push_back(fmt::format("nccl     and {} other communicators: see --json", findings.size() - lines.size()));
      break;
    }
    lines.push_back("nccl     " + base::printable(finding.text));
  }
  return lines;
}

}  // namespace

std::string format_silence(std::chrono::milliseconds silent) {
  const long seconds = static_cast<long>(std::chrono::floor<std::chrono::seconds>(silent).count());
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} m {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} m", seconds / 3600, seconds % 3600 / 60);
}

std::string format_hang_over(std::chrono::milliseconds silent) {
  return "the job goes on after " + format_silence(silent);
}

std::vector<std::string> format_hang(const model::HangReport& report, const HangViewOptions& options) {
  std::vector<std::string> lines = {title(report, options.is_asked_for), "cause    " + base::printable(report.cause)};
  const std::size_t shown = std::min(report.classes.size(), kMostClasses);
  for (std::size_t i = 0; i < shown; ++i) {
    for (std::string& line : class_lines(report.classes[i], options.columns)) lines.push_back(std::move(line));
  }
  std::size_t hidden = 0;
  for (std::size_t i = shown; i < report.classes.size(); ++i) hidden += report.classes[i].ranks.size();
  if (hidden > 0) {
    lines.push_back(fmt::format("others   {} at {} other places", plural(static_cast<int>(hidden), "rank", "ranks"),
                                report.classes.size() - shown));
  }
  for (std::string& line : nccl_lines(report.nccl)) lines.push_back(std::move(line));
  if (!report.silent_hosts.empty()) {
    lines.push_back("silent   " + base::printable(model::short_host_list(report.silent_hosts)));
  }
  if (!options.job.empty()) {
    const std::string rank =
        report.has_suspects() ? fmt::format(" -r {}", report.classes.front().ranks.front()) : std::string();
    lines.push_back(fmt::format("next     muster stacks {}{} --native, or muster stacks {} --tree", options.job, rank,
                                options.job));
  }
  for (std::string& line : lines) {
    // The cause is never cut: it has the answer.
    if (line.size() > options.columns && !line.starts_with("cause")) line = base::shortened(line, options.columns);
  }
  return lines;
}

}  // namespace muster::cli::view
