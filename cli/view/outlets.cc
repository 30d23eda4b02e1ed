#include "cli/view/outlets.h"

#include <unistd.h>

#include <functional>
#include <vector>

namespace muster::cli::inline view {
namespace {

// Returns for each rank the streams that `streams_of` selects for its local rank.
std::vector<launcherd::SelectSink::Streams> selected(const model::Placement& placement,
                                                     const std::function<model::StreamSet(int)>& streams_of) {
  std::vector<launcherd::SelectSink::Streams> streams(static_cast<std::size_t>(placement.size));
  for (const model::PlacedHost& host : placement.hosts) {
    for (const model::PlacedRank& rank : host.ranks) {
      const model::StreamSet set = streams_of(rank.local_rank);
      streams[static_cast<std::size_t>(rank.rank)] = {(set & model::kStdout) != 0, (set & model::kStderr) != 0};
    }
  }
  return streams;
}

}  // namespace

Outlets::Outlets(const base::Clock& clock, const model::JobSpec& job, const model::LabelFormat& label, int size)
    : routes_(job.output),
      terminals_(STDOUT_FILENO, STDERR_FILENO),
      notices_(terminals_.err()),
      console_(terminals_.out(), terminals_.err(), &clock,
               {.size = size, .raw_rank = job.input.pty ? 0 : -1, .label = label}) {}

base::Result<std::unique_ptr<Outlets>> Outlets::open(const base::Clock& clock, const model::JobSpec& job,
                                                     const model::LabelFormat& label, const model::Placement& placement,
                                                     const std::string& directory, const std::string& log_dir) {
  std::unique_ptr<Outlets> outlets(new Outlets(clock, job, label, placement.size));
  using Streams = std::vector<launcherd::SelectSink::Streams>;
  const model::OutputRoutes& routes = job.output;
  if (!routes.shows_all()) {
    outlets->shown_ = std::make_unique<launcherd::SelectSink>(&outlets->console_, Streams());
    outlets->sink_ = outlets->shown_.get();
  }
  if (!log_dir.empty() && routes.has_filters()) {
    MUSTER_ASSIGN_OR_RETURN(outlets->filtered_, launcherd::FilterSink::create(log_dir, routes.filters, &clock, label));
    outlets->searched_ = std::make_unique<launcherd::SelectSink>(outlets->filtered_.get(), Streams());
    outlets->add_sink(outlets->searched_.get(), outlets->filter_tee_);
  }
  if (!directory.empty()) {
    MUSTER_ASSIGN_OR_RETURN(outlets->files_, launcherd::FileSink::create(directory, placement.size));
    outlets->written_ = std::make_unique<launcherd::SelectSink>(outlets->files_.get(), Streams());
    outlets->add_sink(outlets->written_.get(), outlets->tee_);
  }
  if (!job.failure.progress_text.empty()) {
    outlets->progress_ = std::make_unique<launcherd::ProgressSink>(outlets->sink_, job.failure.progress_text);
    outlets->sink_ = outlets->progress_.get();
  }
  outlets->set_placement(placement);
  return outlets;
}

void Outlets::set_placement(const model::Placement& placement) {
  const auto console = [&](int local_rank) { return routes_.console(local_rank); };
  if (shown_ != nullptr) shown_->set_streams(selected(placement, console));
  if (searched_ != nullptr) searched_->set_streams(selected(placement, console));
  if (written_ == nullptr) return;
  written_->set_streams(selected(placement, [&](int local_rank) { return routes_.files.of(local_rank); }));
}

void Outlets::add_sink(launcherd::OutputSink* other, std::unique_ptr<launcherd::TeeSink>& tee) {
  tee = std::make_unique<launcherd::TeeSink>(sink_, other);
  sink_ = tee.get();
}

void Outlets::set_raw(bool is_raw) {
  terminals_.out()->set_raw(is_raw);
  terminals_.err()->set_raw(is_raw);
}

void Outlets::close(base::MonotonicTime deadline) {
  if (!notices_.flush_blocking(deadline)) terminals_.err()->cancel();
  // Cancel the console's output, because a console that no process reads would delay the hub's thread.
  terminals_.out()->cancel();
}

}  // namespace muster::cli::view
