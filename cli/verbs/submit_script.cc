// `muster submit -t` with a scheduler: writes the script into a file and passes it to the scheduler's program.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <iterator>

#include "base/file.h"
#include "base/ids.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/standard_streams.h"
#include "cli/verbs/submit.h"
#include "cli/verbs/templates_verbs.h"

namespace muster::cli::inline verbs {
namespace {

using job_templates::Scheduler;

// The limit is long because a busy server may take minutes. If Muster ends the scheduler's program early, the scheduler
// may have the job all the same.
constexpr std::chrono::minutes kSubmissionLimit{10};

bool is_on_path(const std::string& program, const base::Environment& environment) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const std::string path(environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  return std::ranges::any_of(base::split(path, ':'), [&](std::string_view folder) {
    return !folder.empty() && ::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0;
  });
}

// Returns the path for the script. The file is kept, because a scheduler may read it only when the job starts.
Result<std::string> path_for(const TemplateLine& line) {
  if (const Setting* script = line.own.find("script")) {
    return std::filesystem::absolute(script->value).string();
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string home, base::home_directory());
  std::error_code failed;
  std::filesystem::create_directories(home + "/.cache/muster", failed);
  if (failed) return base::unavailable("{}/.cache/muster: {}", home, failed.message());
  const std::string folder = home + "/.cache/muster/jobs";
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(folder));
  return fmt::format("{}/{}-{}.sh", folder, line.job_template->name, base::JobId::random().str());
}

}  // namespace

SubmitProgram submit_program(const job_templates::Template& job_template) {
  SubmitProgram program;
  for (const std::string_view word : base::split(job_template.submit, ' ')) {
    if (!word.empty()) program.words.emplace_back(word);
  }
  if (program.words.empty()) {
    switch (job_template.scheduler) {
      case Scheduler::kNone:
        return {};
      case Scheduler::kCobalt:
      case Scheduler::kPbs:
        program.words = {"qsub"};
        break;
      case Scheduler::kSlurm:
        program.words = {"sbatch", "--parsable"};
        break;
      case Scheduler::kFlux:
        program.words = {"flux", "batch"};
        break;
      case Scheduler::kLsf:
        program.words = {"bsub"};
        break;
    }
  }
  program.reads_stdin = job_template.scheduler == Scheduler::kLsf;
  return program;
}

std::optional<std::string> submitted_id(Scheduler scheduler, std::string_view output) {
  // bsub prints: Job <123> is submitted to queue <batch>.
  if (scheduler == Scheduler::kLsf) {
    const auto open = output.find("Job <");
    const auto close = open == std::string_view::npos ? open : output.find('>', open);
    if (close == std::string_view::npos) return std::nullopt;
    return std::string(output.substr(open + 5, close - open - 5));
  }
  // Take the last line that is one word, because some sites' programs print other lines first.
  const auto lines = base::split(output, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    std::string_view word = base::trim(*line);
    if (scheduler == Scheduler::kSlurm) word = word.substr(0, word.find(';'));  // sbatch --parsable prints id;cluster
    const bool is_id = !word.empty() && std::ranges::all_of(word, [](unsigned char c) { return c > ' ' && c != 0x7f; });
    if (is_id) return std::string(word);
  }
  return std::nullopt;
}

Status submission_failure(Scheduler scheduler, const Status& failure) {
  constexpr Code kEndedByUs[] = {Code::kDeadlineExceeded, Code::kCancelled, Code::kResourceExhausted};
  if (std::ranges::find(kEndedByUs, failure.code()) == std::end(kEndedByUs)) return failure;
  constexpr std::string_view kLists[] = {"its list of jobs", "qstat", "qstat", "squeue", "flux jobs", "bjobs"};
  return error(failure.code(), "{}; the job may have been submitted all the same: see {} before you try again",
               failure.message(), kLists[static_cast<std::size_t>(scheduler)]);
}

bool has_scheduler(const job_templates::Template& job_template, const base::Environment& environment) {
  const SubmitProgram program = submit_program(job_template);
  if (program.words.empty()) {
    base::print_remark("muster submit: the template {} has no scheduler; the job goes to launcherd\n",
                       base::printable(job_template.name));
    return false;
  }
  if (is_on_path(program.words.front(), environment)) return true;
  base::print_remark("muster submit: {} is not on PATH; the job goes to launcherd\n",
                     base::printable(program.words.front()));
  return false;
}

Result<int> submit_script(TemplateLine& line) {
  const SubmitProgram program = submit_program(*line.job_template);
  MUSTER_ASSIGN_OR_RETURN(const std::string script, script_of("submit", line));
  MUSTER_ASSIGN_OR_RETURN(const std::string path, path_for(line));
  MUSTER_RETURN_IF_ERROR(base::write_file_atomically(path, script, 0700));
  base::print_remark("muster submit: the script is {}\n", base::printable(path));
  std::vector<std::string> words = program.words;
  if (program.reads_stdin) {
    words.insert(words.begin(), {"/bin/sh", "-c", "script=$1; shift; exec \"$@\" < \"$script\"", "submit", path});
  } else {
    words.push_back(path);
  }
  const auto output = ask_scheduler_within(kSubmissionLimit, words);
  if (!output.ok()) return submission_failure(line.job_template->scheduler, output.status());
  const auto id = submitted_id(line.job_template->scheduler, *output);
  if (!id) {
    return base::unavailable("{} accepted the script but printed no job id; its output: {}", program.words.front(),
                             base::printable(base::trim(*output)));
  }
  return print_answer("muster submit", submit_answer(base::printable(*id), line.own.find("json") != nullptr));
}

}  // namespace muster::cli::verbs
