// This file asks launchers, and reads files, for words that complete a command line.
// Read add_live_words() at the end first; each kind of word has an add_…() function.
#include "cli/verbs/live_words.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/launcher_address.h"
#include "cli/view/job_table.h"
#include "cli/view/report.h"
#include "job_templates/load.h"
#include "model/host_spec.h"

namespace muster::cli::inline verbs {
namespace {

using std::chrono::milliseconds;

constexpr int kMostJobs = 200;
constexpr std::size_t kMostCommandShown = 40;

// The time that is left of a limit.
class TimeLeft {
 public:
  explicit TimeLeft(milliseconds limit) : end_(base::monotonic_now() + limit) {}
  milliseconds left() const {
    const auto rest = std::chrono::duration_cast<milliseconds>(end_ - base::monotonic_now());
    return std::max(rest, milliseconds(0));
  }
  bool is_over() const { return left() == milliseconds(0); }

 private:
  const base::MonotonicTime end_;
};

std::string description_of(const v1::Job& job, base::WallTime now) {
  const JobTexts texts = texts_of(job, now);
  std::string command = texts.command;
  if (command.size() > kMostCommandShown) command = base::valid_utf8(command.substr(0, kMostCommandShown)) + "…";
  return fmt::format("{}, {}, {}{}: {}", texts.state, plural(job.size(), "rank", "ranks"), texts.age,
                     job.name().empty() ? "" : ", " + base::printable(job.name()), command);
}

// Returns the launcherd that the line or the environment names. nullopt if there is none.
std::optional<launcherd::LauncherAddress> launcherd_of(const Completion& completion,
                                                       const base::Environment& environment) {
  CommandLine line;
  for (const GivenOption& option : completion.options) {
    const std::string_view name = option.flag->name;
    const bool is_launcher = name == "launcher" && option.value != "auto";
    if (is_launcher || name == "tls-cert" || name == "tls-key" || name == "tls-ca") {
      line.options.push_back({option.flag, option.spelling, option.value});
    }
  }
  Settings settings;
  if (!settings.add_layer(settings_of(line)).ok()) return std::nullopt;
  const auto found = find_launcherd(settings, environment);
  return found.ok() ? *found : std::nullopt;
}

void add_launchers_jobs(Completion& completion, const base::Environment& environment, const TimeLeft& time) {
  std::vector<v1::Job> jobs;
  if (const auto daemon = launcherd_of(completion, environment)) {
    v1::ListJobsRequest request;
    request.set_all(completion.wanted == Completes::kAnyJob);
    request.set_page_size(kMostJobs);
    const auto listed = launcherd::ApiClient(*daemon).list_jobs(request, time.left());
    if (listed.ok()) jobs.assign(listed->jobs().begin(), listed->jobs().end());
  }
  for (const FoundJob& found : foreground_jobs()) {
    v1::GetJobRequest request;
    request.set_max_ranks(kNoRanks);
    if (time.is_over()) break;
    auto job = launcherd::ApiClient(found.launcher).get_job(request, time.left());
    if (job.ok()) jobs.push_back(*std::move(job));
  }
  add_jobs(completion, jobs, base::SystemClock().wall());
}

// True if the line names the host already: in the list that is typed, or as a word before.
bool is_listed(const Completion& completion, std::string_view name) {
  const std::string_view list = completion.before;
  for (const std::string_view item : base::split(list.substr(list.find('=') + 1), ',')) {
    if (item.substr(0, item.find(':')) == name) return true;
  }
  return std::ranges::find(completion.arguments, name) != completion.arguments.end();
}

void add_host(Completion& completion, std::string_view name, std::string_view description) {
  const bool is_there = std::ranges::find(completion.candidates, name, &Candidate::text) != completion.candidates.end();
  if (!is_there && !is_listed(completion, name)) add_candidate(completion, name, description);
}

void add_hosts_of_file(Completion& completion, const base::Environment& environment) {
  std::string path(environment.get(hvdrun_flags().named("hostfile").variable()).value_or(""));
  for (const GivenOption& option : completion.options) {
    if (option.flag->name == "hostfile") path = option.value;
  }
  // A pipe could wait for ever, and its words are for the command itself.
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return;
  const auto content = base::read_file(path);
  if (!content.ok()) return;
  const auto hosts = model::parse_hostfile(*content, path);
  if (!hosts.ok()) return;
  for (const model::HostSpec& host : *hosts) add_host(completion, host.name, "hostfile");
}

void add_hosts(Completion& completion, const base::Environment& environment, const TimeLeft& time) {
  if (const auto daemon = launcherd_of(completion, environment)) {
    const auto answer = launcherd::ApiClient(*daemon).list_hosts(time.left());
    const v1::ListHostsResponse listed = answer.ok() ? *answer : v1::ListHostsResponse();
    for (const v1::LauncherHost& host : listed.hosts()) {
      add_host(
          completion, host.name(),
          fmt::format("{} of {} slots used{}", host.used_slots(), host.slots(), host.drained() ? ", drained" : ""));
    }
  }
  // Only launcherd's own hosts can be drained or given to a job.
  if (!completion.arguments.empty()) return;
  add_hosts_of_file(completion, environment);
  if (const auto content = base::read_file("/etc/hosts"); content.ok()) add_hosts_of_etc(completion, *content);
  const std::string home(environment.get("HOME").value_or(""));
  if (const auto content = base::read_file(home + "/.ssh/config"); content.ok()) add_hosts_of_ssh(completion, *content);
}

void add_templates(Completion& completion, const base::Environment& environment) {
  const auto sources = job_templates::standard_sources(environment, ".");
  for (const std::string& name : job_templates::template_names(sources)) {
    const auto loaded = job_templates::load_template(name, sources);
    const std::string help = loaded.ok() ? loaded->help.substr(0, loaded->help.find('\n')) : std::string();
    add_candidate(completion, name, help);
  }
}

void add_variables(Completion& completion, const base::Environment& environment) {
  for (const auto& [name, value] : environment.entries()) add_candidate(completion, name);
}

// Calls `take` with each word of the line that is not behind a '#'.
template <typename Take>
void for_each_word(std::string_view line, const Take& take) {
  std::string word;
  for (const char c : std::string(line.substr(0, line.find('#'))) + " ") {
    if (c != ' ' && c != '\t' && c != '\r') {
      word += c;
    } else if (!word.empty()) {
      take(std::exchange(word, {}));
    }
  }
}

}  // namespace

void add_jobs(Completion& completion, const std::vector<v1::Job>& jobs, base::WallTime now) {
  std::map<std::string, int> open;  // jobs of a name that have not ended; several make the name ambiguous
  for (const v1::Job& job : jobs) {
    open[job.name()] += job.has_ended() ? 0 : 1;
    add_candidate(completion, job.id(), description_of(job, now));
  }
  std::set<std::string> offered;
  for (const v1::Job& job : jobs) {
    const bool is_first = offered.insert(job.name()).second;
    const bool is_option = job.name().starts_with('-');  // the verb would take it for one
    if (is_first && !is_option && open[job.name()] <= 1) add_candidate(completion, job.name(), "name of a job");
  }
  // A job that the line already names is not offered again.
  const auto is_given = [&](const Candidate& candidate) {
    return std::ranges::find(completion.arguments, candidate.text) != completion.arguments.end();
  };
  std::erase_if(completion.candidates, is_given);
}

void add_hosts_of_etc(Completion& completion, std::string_view content) {
  for (const std::string_view line : base::split(content, '\n')) {
    bool is_address = true;
    for_each_word(line, [&](const std::string& word) {
      if (!is_address) add_host(completion, word, "/etc/hosts");
      is_address = false;
    });
  }
}

void add_hosts_of_ssh(Completion& completion, std::string_view content) {
  for (const std::string_view line : base::split(content, '\n')) {
    std::optional<bool> is_host_line;
    for_each_word(line, [&](const std::string& word) {
      if (!is_host_line) {
        is_host_line = base::lower(word) == "host";
      } else if (*is_host_line && word.find_first_of("*?!") == std::string::npos) {
        add_host(completion, word, "~/.ssh/config");
      }
    });
  }
}

void add_live_words(Completion& completion, const base::Environment& environment, milliseconds limit) {
  const TimeLeft time(limit);
  switch (completion.wanted) {
    case Completes::kJob:
    case Completes::kAnyJob:
      return add_launchers_jobs(completion, environment, time);
    case Completes::kHost:
      return add_hosts(completion, environment, time);
    case Completes::kTemplate:
      return add_templates(completion, environment);
    case Completes::kVariable:
      return add_variables(completion, environment);
    default:
      return;
  }
}

}  // namespace muster::cli::verbs
