#include "cli/verbs/job_report.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/verbs/follow_job.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/stacks.h"
#include "cli/verbs/verb.h"
#include "cli/view/history_scalars.h"
#include "cli/view/report_page.h"
#include "launcherd/service/api_client.h"

namespace muster::cli::inline verbs {
namespace {

// All events that the launcher has at present. Does not wait for the job's end.
base::Status read_job(const VerbCall& call, const FoundJob& found, ReportedJob& into) {
  launcherd::ApiClient client(found.launcher);
  MUSTER_ASSIGN_OR_RETURN(into.job, ask_job(client, found, kNoRanks));
  if (into.job.last_event() == 0) return base::ok_status();
  Reconnecting reconnecting([&](const std::string& line) { call.remark(line); }, -1);
  return watch_to_end(client, found, 0, reconnecting,
                      [&](const v1::Event& event) {
                        into.events.push_back(event);
                        return event.sequence() < into.job.last_event();
                      })
      .status();
}

// hvdrun's jobs have no history: the file then has their events only.
base::Status write_scalars(const FoundJob& found, const ReportedJob& job, const std::string& folder) {
  v1::HistoryRequest request;
  request.set_job(found.id);
  const auto history = launcherd::ApiClient(found.launcher).history(request, kPatience);
  if (!history.ok() && history.status().code() != base::Code::kUnimplemented) return history.status();
  const base::WallTime now = base::SystemClock().wall();
  MUSTER_ASSIGN_OR_RETURN(const auto file, TensorboardFile::create("--tensorboard", folder, now));
  const auto records = history_scalars(job, history.ok() ? *history : v1::HistoryResponse(), now);
  for (const HistoryRecord& record : records) {
    MUSTER_RETURN_IF_ERROR(file->write(record.time, record.step, record.values));
  }
  return base::ok_status();
}

}  // namespace

int run_job_report(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, job_report_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  std::vector<FoundJob> found;
  if (call.words().empty()) {
    auto job = one_job_or_newest(call);
    if (!job.ok()) return call.fail(job.status());
    found.push_back(*std::move(job));
  }
  for (const std::string& word : call.words()) {
    auto job = job_named(call, word);
    if (!job.ok()) return call.fail(job.status());
    found.push_back(*std::move(job));
  }
  std::vector<ReportedJob> jobs(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const base::Status read = read_job(call, found[i], jobs[i]);
    if (!read.ok()) return job_not_answered(call, found[i], read);
  }
  if (const Setting* const folder = call.settings().find("tensorboard")) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::string into = found.size() == 1 ? folder->value : folder->value + "/" + found[i].id;
      const base::Status written = write_scalars(found[i], jobs[i], into);
      if (!written.ok()) return call.fail(written.message(), kMusterFailed);
    }
    return 0;
  }
  const Setting* const output = call.settings().find("output");
  if (output == nullptr) return call.print(report_page(jobs));
  const base::Status written = write_picture(output->value, report_page(jobs));
  return written.ok() ? 0 : call.fail(written.message(), kMusterFailed);
}

}  // namespace muster::cli::verbs
