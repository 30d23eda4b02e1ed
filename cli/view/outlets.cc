#include "cli/view/outlets.h"

#include <unistd.h>

#include <functional>
#include <vector>

namespace muster::cli::inline view {
namespace {

using Streams = std::vector<launcherd::SelectSink::Streams>;

// Returns for each rank the streams that `streams_of` selects for its local rank.
Streams selected(const model::Placement& placement, const std::function<model::StreamSet(int)>& streams_of) {
  Streams streams(static_cast<std::size_t>(placement.size));
  for (const model::PlacedHost& host : placement.hosts) {
    for (const model::PlacedRank& rank : host.ranks) {
      const model::StreamSet set = streams_of(rank.local_rank);
      streams[static_cast<std::size_t>(rank.rank)] = {(set & model::kStdout) != 0, (set & model::kStderr) != 0};
    }
  }
  return streams;
}

// Returns the ranks of which `streams_of` selects a stream.
std::vector<int> shown_ranks(const model::Placement& placement,
                             const std::function<model::StreamSet(int)>& streams_of) {
  if (placement.hosts.empty()) return first_ranks(placement.size);
  std::vector<int> ranks;
  for (const model::PlacedHost& host : placement.hosts) {
    for (const model::PlacedRank& rank : host.ranks) {
      if (streams_of(rank.local_rank) != 0) ranks.push_back(rank.rank);
    }
  }
  return ranks;
}

}  // namespace

Outlets::Outlets(const model::JobSpec& job)
    : routes_(job.output), terminals_(STDOUT_FILENO, STDERR_FILENO), notices_(terminals_.err()) {}

base::Result<std::unique_ptr<Outlets>> Outlets::open(const base::Clock& clock, const model::JobSpec& job,
                                                     const Style& style, const model::Placement& placement,
                                                     const Folders& folders) {
  std::unique_ptr<Outlets> outlets(new Outlets(job));
  const launcherd::ConsoleSinkOptions console = {
      .size = placement.size, .raw_rank = job.input.pty ? 0 : -1, .label = style.label};
  MUSTER_ASSIGN_OR_RETURN(outlets->console_, RankConsole::open(outlets->terminals_, clock, console, style.fold));
  outlets->sink_ = outlets->console_->sink();
  if (!job.output.shows_all()) {
    outlets->shown_ = std::make_unique<launcherd::SelectSink>(outlets->sink_, Streams());
    outlets->sink_ = outlets->shown_.get();
  }
  const bool is_torchs = job.log_layout == model::LogLayout::kTorchrun && !folders.logs.empty();
  if (is_torchs) {
    MUSTER_ASSIGN_OR_RETURN(outlets->torch_logs_,
                            launcherd::TorchLogs::create(folders.logs, folders.run_id, placement));
  }
  MUSTER_RETURN_IF_ERROR(outlets->open_filters(clock, style.label, folders.logs));
  MUSTER_RETURN_IF_ERROR(outlets->open_files(folders.output, placement, is_torchs && folders.output == folders.logs));
  if (!job.failure.progress_text.empty()) {
    outlets->progress_ = std::make_unique<launcherd::ProgressSink>(outlets->sink_, job.failure.progress_text);
    outlets->sink_ = outlets->progress_.get();
  }
  outlets->set_placement(placement);
  return outlets;
}

base::Status Outlets::open_filters(const base::Clock& clock, const model::LabelFormat& label,
                                   const std::string& log_dir) {
  if (log_dir.empty() || !routes_.has_filters()) return base::ok_status();
  if (torch_logs_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(filtered_,
                            launcherd::TorchFilterSink::create(torch_logs_.get(), routes_.filters, &clock, label));
  } else {
    MUSTER_ASSIGN_OR_RETURN(filtered_, launcherd::FilterSink::create(log_dir, routes_.filters, &clock, label));
  }
  searched_ = std::make_unique<launcherd::SelectSink>(filtered_.get(), Streams());
  add_sink(searched_.get(), filter_tee_);
  return base::ok_status();
}

base::Status Outlets::open_files(const std::string& directory, const model::Placement& placement, bool is_torchs) {
  if (directory.empty()) return base::ok_status();
  if (is_torchs) {
    const auto selects = [this](int local_rank, proto::OutputStream stream) {
      const model::StreamSet wanted = stream == proto::OutputStream::kStdout ? model::kStdout : model::kStderr;
      return (routes_.files.of(local_rank) & wanted) != 0;
    };
    MUSTER_ASSIGN_OR_RETURN(torch_files_, launcherd::TorchLogSink::create(torch_logs_.get(), selects));
    add_sink(torch_files_.get(), tee_);
    return base::ok_status();
  }
  MUSTER_ASSIGN_OR_RETURN(files_, launcherd::FileSink::create(directory, placement.size));
  written_ = std::make_unique<launcherd::SelectSink>(files_.get(), Streams());
  add_sink(written_.get(), tee_);
  return base::ok_status();
}

void Outlets::set_placement(const model::Placement& placement) {
  const auto console = [&](int local_rank) { return routes_.console(local_rank); };
  if (shown_ != nullptr) shown_->set_streams(selected(placement, console));
  console_->set_ranks(shown_ranks(placement, console));
  if (searched_ != nullptr) searched_->set_streams(selected(placement, console));
  if (torch_logs_ != nullptr) torch_logs_->set_placement(placement);
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
  if (!console_->finish_blocking(deadline)) terminals_.cancel();
  if (!notices_.flush_blocking(deadline)) terminals_.err()->cancel();
  // Cancel the console's output, because a console that no process reads would delay the hub's thread.
  terminals_.out()->cancel();
}

}  // namespace muster::cli::view
