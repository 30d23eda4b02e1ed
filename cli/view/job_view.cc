#include "cli/view/job_view.h"

#include <variant>

#include "base/strings.h"
#include "cli/view/hang_view.h"
#include "cli/view/report.h"
#include "model/host_group.h"
#include "model/node_shape.h"

namespace muster::cli::inline view {
namespace {

// Returns "the job starts with 79,768 ranks on 9,971 hosts".
std::string describe_start(const model::Placement& placement) {
  return fmt::format("the job starts with {} rank{} on {} host{}",
                     model::format_count(static_cast<std::size_t>(placement.size)), placement.size == 1 ? "" : "s",
                     model::format_count(placement.hosts.size()), placement.hosts.size() == 1 ? "" : "s");
}

}  // namespace

void JobView::on_progress(int up, int total, const std::vector<std::string>& waiting) {
  if (options_.quiet) return;
  // Clear the status line once all hosts are up: the first output comes soon, and the line must not appear again below
  // it.
  notices_->status(
      up == total ? ""
                  : model::describe_waiting(static_cast<std::size_t>(up), static_cast<std::size_t>(total), waiting));
}

void JobView::on_note(const std::string& line) {
  if (options_.verbose) notices_->line(line);
}

void JobView::on_remark(const std::string& line) {
  if (!options_.quiet) notices_->line(line);
}

void JobView::on_root_cause(const model::RankEnd& root) {
  notices_->status("");
  notices_->line(mark_rank(format_root_cause(root, options_.placement.role(root.rank)), options_.has_color));
}

std::string format_binding(const model::BoundRank& rank) {
  std::vector<std::string> gpus;
  for (std::size_t i = 0; i < rank.devices.size(); ++i) {
    const std::string& id = rank.devices[i];
    const bool has_number = rank.gpus.size() == rank.devices.size();
    const std::size_t colon = id.find(':');  // the id ends with a driver's number, or that of a tile
    if (colon != std::string::npos) {
      gpus.push_back("GPU " + id.substr(colon + 1));
    } else {
      gpus.push_back(has_number ? fmt::format("GPU {} ({})", rank.gpus[i], id) : "GPU " + id);
    }
  }
  return base::printable(
      fmt::format("rank {} on {}, local rank {}: {}, {}", rank.rank, rank.host, rank.local_rank,
                  rank.cpus.empty() ? std::string("not bound to cores") : "cores " + model::format_cpu_list(rank.cpus),
                  gpus.empty() ? std::string("no GPU") : base::join(gpus, ", ")));
}

void JobView::on_bound(const std::vector<model::BoundRank>& ranks) {
  if (!options_.reports_bindings) return;
  notices_->status("");
  for (const model::BoundRank& rank : ranks) notices_->line(format_binding(rank));
}

void JobView::on_event(const model::JobEvent& event) {
  if (const auto* const wrong = std::get_if<model::WrongWorld>(&event)) {
    notices_->status("");
    notices_->line("WARNING: " + base::printable(model::describe(*wrong)));
  }
  if (const auto* const left_out = std::get_if<model::HostsLeftOut>(&event)) {
    notices_->status("");
    notices_->line(base::printable(model::describe(*left_out)));
    has_left_out_ = true;
  }
  if (const auto* const starting = std::get_if<model::JobStarting>(&event); starting != nullptr && has_left_out_) {
    if (options_.on_generation) options_.on_generation(starting->placement);
    if (!options_.quiet) notices_->line(describe_start(starting->placement));
  }
  if (const auto* const late = std::get_if<model::LateHost>(&event); late != nullptr && !options_.quiet) {
    notices_->status("");
    notices_->line(base::printable(model::describe(*late)));
  }
  if (const auto* const ended = std::get_if<model::FirstCollectiveEnded>(&event); ended != nullptr && !options_.quiet) {
    notices_->status("");
    notices_->line(model::describe(*ended));
  }
  if (const auto* const hang = std::get_if<model::HangReported>(&event)) {
    notices_->status("");
    for (const std::string& line : format_hang(hang->report, {.job = options_.job_id})) notices_->line(line);
  }
  const auto* const began = std::get_if<model::GenerationBegan>(&event);
  if (began == nullptr) return;
  // While processes live on, their output goes where it went before.
  if (options_.on_generation && began->former.empty()) options_.on_generation(began->placement);
  if (options_.quiet) return;
  notices_->status("");
  notices_->line(base::printable(model::describe(*began)));
}

void JobView::on_hang_over(std::chrono::milliseconds silent) {
  notices_->line(format_hang_over(silent));
}

void JobView::on_finished(const launcherd::JobOutcome& outcome) {
  notices_->status("");
  for (const std::string& line :
       format_outcome(outcome, options_.is_terminal && !options_.quiet, options_.shows_stderr && !options_.quiet)) {
    notices_->line(line);
  }
  outcome_ = outcome;
  finished_();
}

}  // namespace muster::cli::view
