#include "cli/job_verbs.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/strings.h"
#include "cli/found_jobs.h"
#include "cli/help.h"
#include "cli/job_table.h"
#include "cli/settings.h"
#include "launcherd/service/api_client.h"
#include "proto/message_json.h"

namespace muster::cli {
namespace {

using launcherd::ApiClient;
using launcherd::FoundLauncher;

constexpr int kNotAnswered = 1;
constexpr int kUsageError = 2;
constexpr int kNoRanks = -1;
constexpr int kHighestSignal = 64;
constexpr std::chrono::seconds kPatience{20};

int fail(const std::string& verb, const std::string& message, int code = kUsageError) {
  fmt::print(stderr, "muster {}: {}\n", verb, message);
  return code;
}

int not_answered(const std::string& verb, const FoundLauncher& job, const base::Status& status) {
  return fail(verb, fmt::format("job {}: {}", job.job_id, base::printable(status.message())), kNotAnswered);
}

bool is_set(const VerbLine& line, std::string_view name) {
  return std::ranges::any_of(line.options.options, [&](const GivenOption& given) { return given.flag->name == name; });
}

// The line, or the exit code when it is answered already.
struct Read {
  std::optional<VerbLine> line;
  int exit_code = 0;
};
Read read(const std::string& verb, const CommandDoc& doc, const std::vector<std::string>& arguments) {
  auto line = read_verb_line(arguments, *doc.table);
  if (!line.ok()) return {.line = {}, .exit_code = fail(verb, line.status().message())};
  if (!line->options.is_answered) return {.line = std::move(*line)};
  fmt::print("{}", help_text(doc));
  return {};
}

std::optional<int> signal_named(std::string_view text) {
  if (const auto number = base::parse_decimal(text, kHighestSignal); number && *number > 0) {
    return static_cast<int>(*number);
  }
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (int signo = 1; signo <= kHighestSignal; ++signo) {
    const char* const name = ::sigabbrev_np(signo);
    if (name != nullptr && text == name) return signo;
  }
  return std::nullopt;
}

base::Status kill_and_wait(const FoundLauncher& job, bool at_once) {
  ApiClient client(job.path);
  MUSTER_RETURN_IF_ERROR(client.kill(at_once, kPatience));
  int exit_code = -1;
  const base::Status watched = client.watch(0, [&](const v1::Event& event) {
    if (event.has_job_ended()) exit_code = event.job_ended().exit_code();
    return true;
  });
  if (exit_code < 0) return watched;
  fmt::print("job {} ended with exit code {}\n", job.job_id, exit_code);
  return base::ok_status();
}

}  // namespace

int run_jobs(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, jobs_doc(), arguments);
  if (!given.line) return given.exit_code;
  if (!given.line->words.empty()) {
    return fail(verb, fmt::format("'{}' is a word too many: muster status shows one job",
                                  base::printable(given.line->words.front())));
  }
  std::vector<v1::Job> jobs;
  for (const FoundLauncher& launcher : running_jobs()) {
    auto job = ApiClient(launcher.path).get_job(0, kNoRanks, kPatience);
    // UNAVAILABLE: it has ended since it was found.
    if (job.ok()) jobs.push_back(std::move(*job));
    if (!job.ok() && job.status().code() != base::Code::kUnavailable) not_answered(verb, launcher, job.status());
  }
  if (is_set(*given.line, "json")) {
    for (const v1::Job& job : jobs) fmt::print("{}", proto::message_line(job));
  } else {
    fmt::print("{}", format_jobs(jobs, base::SystemClock().wall()));
  }
  return 0;
}

int run_status(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, status_doc(), arguments);
  if (!given.line) return given.exit_code;
  const auto found = one_job(given.line->words);
  if (!found.ok()) return fail(verb, found.status().message());
  ApiClient client(found->path);
  auto job = client.get_job(0, 0, kPatience);
  while (job.ok() && job->ranks_size() < job->size()) {  // a large job comes in several answers
    auto more = client.get_job(job->ranks_size(), 0, kPatience);
    if (more.ok() && more->ranks().empty()) break;
    if (!more.ok()) return not_answered(verb, *found, more.status());
    job->mutable_ranks()->MergeFrom(more->ranks());
  }
  if (!job.ok()) return not_answered(verb, *found, job.status());
  fmt::print("{}",
             is_set(*given.line, "json") ? proto::message_line(*job) : format_status(*job, base::SystemClock().wall()));
  return 0;
}

int run_kill(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, kill_doc(), arguments);
  if (!given.line) return given.exit_code;
  Settings settings;
  if (const base::Status set = settings.add_layer(settings_of(given.line->options)); !set.ok()) {
    return fail(verb, set.message());
  }
  if (given.line->words.empty()) return fail(verb, "which job? muster jobs lists them");
  std::optional<int> signo;
  if (const Setting* const name = settings.find("signal")) {
    signo = signal_named(name->value);
    if (!signo) return fail(verb, fmt::format("{}: there is no signal {}", name->label, base::printable(name->value)));
  }
  std::vector<FoundLauncher> jobs;
  for (const std::string& word : given.line->words) {
    const auto job = job_named(word);
    if (!job.ok()) return fail(verb, job.status().message());
    jobs.push_back(*job);
  }
  int exit_code = 0;
  for (const FoundLauncher& job : jobs) {
    const base::Status done =
        signo ? ApiClient(job.path).signal(*signo, kPatience) : kill_and_wait(job, settings.find("now") != nullptr);
    if (!done.ok()) exit_code = not_answered(verb, job, done);
  }
  return exit_code;
}

int run_events(const std::string& verb, const std::vector<std::string>& arguments) {
  const Read given = read(verb, events_doc(), arguments);
  if (!given.line) return given.exit_code;
  const auto found = one_job(given.line->words);
  if (!found.ok()) return fail(verb, found.status().message());
  ApiClient client(found->path);
  const auto job = client.get_job(0, kNoRanks, kPatience);
  if (!job.ok()) return not_answered(verb, *found, job.status());
  const bool json = is_set(*given.line, "json");
  const bool follow = is_set(*given.line, "follow");
  const base::Status watched = client.watch(0, [&](const v1::Event& event) {
    fmt::print("{}", json ? proto::message_line(event) : format_event(event));
    std::fflush(stdout);
    return follow || event.sequence() < job->last_event();
  });
  return watched.ok() ? 0 : not_answered(verb, *found, watched);
}

}  // namespace muster::cli
