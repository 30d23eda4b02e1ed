#include "agent/job/rank_inputs.h"

#include <utility>

namespace muster::agent::inline job {
namespace {

bool is_possible(int cells) {
  return cells > 0 && cells <= 0xffff;
}

}  // namespace

void RankInputs::plan(const v1::LaunchRank& rank, SpawnRequest& request) {
  if (rank.pty()) {
    terminal_rank_ = rank.rank();
    request.stdin_of = StdinOf::kTerminal;
    request.rows = rows_;
    request.columns = columns_;
  } else if (rank.input()) {
    request.stdin_of = StdinOf::kPipe;
  }
}

void RankInputs::started(RankStarted& started) {
  if (!started.stdin_fd.valid()) return;
  const auto kind = has_terminal(started.rank) ? RankInput::Kind::kTerminal : RankInput::Kind::kPipe;
  inputs_[started.rank] = std::make_unique<RankInput>(loop_, std::move(started.stdin_fd), kind,
                                                      [this, rank = started.rank](std::size_t bytes, bool closed) {
                                                        v1::InputTaken taken;
                                                        taken.set_rank(rank);
                                                        taken.set_bytes(bytes);
                                                        taken.set_closed(closed);
                                                        report_(std::move(taken));
                                                      });
}

void RankInputs::over(int rank) {
  inputs_.erase(rank);
}

void RankInputs::arrived(const v1::RankInput& message) {
  for (const int rank : message.ranks()) {
    const auto found = inputs_.find(rank);
    if (found == inputs_.end()) continue;
    found->second->push(message.data());
    if (message.eof()) found->second->end();
  }
}

void RankInputs::resize(const v1::WindowSize& size) {
  if (!is_possible(size.rows()) || !is_possible(size.columns())) return;
  rows_ = static_cast<unsigned short>(size.rows());
  columns_ = static_cast<unsigned short>(size.columns());
  const auto found = inputs_.find(terminal_rank_);
  if (found != inputs_.end()) found->second->resize(rows_, columns_);
}

}  // namespace muster::agent::job
