// LineFold: lines become groups, ranks join groups, groups are shown.
// Read write() and add_line() first, then add(), find_group() and level_to_join(), then show().
#include "launcherd/output/line_fold.h"

#include <algorithm>

#include <fmt/format.h>

#include "launcherd/output/line_pattern.h"

namespace muster::launcherd::inline output {
namespace {

// The distance between the levels of two groups of a chain. A group that gets its level later takes one between.
constexpr std::uint64_t kLevelStep = std::uint64_t{1} << 20;
constexpr std::uint64_t kNoUpperLevel = ~std::uint64_t{0};
// Bounds of the search for a group to join. Beyond them a line is shown on its own.
constexpr std::size_t kMostCandidates = 8;
constexpr std::size_t kMostChainSteps = 64;

std::size_t stream_index(proto::OutputStream stream) {
  return stream == proto::OutputStream::kStdout ? 0 : 1;
}

// Returns the size of "[rank7]: " at the beginning of a line of rank 7; 0 if the line begins otherwise. PyTorch puts
// this prefix before each line of a traceback, so that equal tracebacks differ.
std::size_t rank_prefix_size(std::string_view line, int rank) {
  constexpr std::string_view kBegin = "[rank";
  if (!line.starts_with(kBegin)) return 0;
  std::array<char, 24> number{};
  const auto end = fmt::format_to_n(number.data(), number.size(), "{}]: ", rank);
  const std::string_view rest(number.data(), end.size);
  return line.substr(kBegin.size()).starts_with(rest) ? kBegin.size() + rest.size() : 0;
}

// Puts the prefix before each line of `text`.
std::string with_rank_prefix(std::string_view text, int rank) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    lines += fmt::format("[rank{}]: {}", rank, text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

}  // namespace

LineFold::Rank& LineFold::rank_of(int rank) {
  const auto [found, is_new] = ranks_.try_emplace(rank);
  if (is_new) ++running_;
  return found->second;
}

void LineFold::set_ranks(const std::vector<int>& ranks) {
  drain();
  ranks_.clear();
  running_ = 0;
  are_ranks_known_ = !ranks.empty();
  for (const int rank : ranks) rank_of(rank);
}

// A rank that had ended writes again. If all had ended, the job runs again.
void LineFold::revive(Rank& state) {
  const auto set_running = [this](Rank& one) {
    one.is_ended = false;
    ++running_;
    for (Group* const group : one.chain) ++group->running;
  };
  if (running_ > 0) return set_running(state);
  for (auto& [rank, one] : ranks_) set_running(one);
}

void LineFold::write(int rank, proto::OutputStream stream, std::string_view bytes, FoldTime at) {
  advance(at);
  if (Rank& state = rank_of(rank); state.is_ended) revive(state);
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) return pass(rank, stream, bytes, at);
    add_line(rank, stream, bytes.substr(0, end + 1), at);
    bytes.remove_prefix(end + 1);
  }
}

void LineFold::add_line(int rank, proto::OutputStream stream, std::string_view line, FoldTime at) {
  const StreamState& state = rank_of(rank).streams[stream_index(stream)];
  if (state.is_open || draws(line)) return pass(rank, stream, line, at);
  const std::size_t prefix = rank_prefix_size(line, rank);
  const Line plain{line.substr(prefix), prefix > 0, at.now + options_.window, at.stamp};
  if (take_into_block(rank, stream, plain)) return;
  close_block(rank, stream);
  if (!take_into_block(rank, stream, plain)) add(rank, stream, plain);
}

bool LineFold::take_into_block(int rank, proto::OutputStream stream, const Line& line) {
  StreamState& state = rank_of(rank).streams[stream_index(stream)];
  const bool is_new = state.block.is_empty();
  if (!is_new && state.has_rank_prefix != line.has_rank_prefix) return false;
  if (!state.block.take(line.text)) return false;
  bytes_ += line.text.size();
  if (is_new) {
    state.has_rank_prefix = line.has_rank_prefix;
    state.due = line.due;
    state.stamp = line.stamp;
    blocks_.insert({state.due, {rank, stream}});
  }
  keep_bounds();
  return true;
}

void LineFold::close_block(int rank, proto::OutputStream stream) {
  StreamState& state = rank_of(rank).streams[stream_index(stream)];
  if (state.block.is_empty()) return;
  blocks_.erase({state.due, {rank, stream}});
  const TracebackBlock block = std::exchange(state.block, {});
  bytes_ -= block.size();
  add(rank, stream, {block.text(), state.has_rank_prefix, state.due, state.stamp});
  for (std::string_view rest = block.rest(); !rest.empty();) {
    const std::size_t size = rest.find('\n') + 1;
    add(rank, stream, {rest.substr(0, size), state.has_rank_prefix, state.due, state.stamp});
    rest.remove_prefix(size);
  }
}

// Shows bytes at once, after all earlier output of the rank.
void LineFold::pass(int rank, proto::OutputStream stream, std::string_view bytes, FoldTime at) {
  close_block(rank, stream);
  Rank& state = rank_of(rank);
  if (!state.chain.empty()) show(state.chain.back());
  state.streams[stream_index(stream)].is_open = bytes.back() != '\n';
  show_({{rank}, stream, bytes, at.stamp});
}

void LineFold::make_key(proto::OutputStream stream, const Line& line) {
  key_.assign(1, static_cast<char>('0' + stream_index(stream) + (line.has_rank_prefix ? 2 : 0)));
  if (options_.ignores_numbers) {
    append_without_numbers(line.text, &key_);
  } else {
    key_ += line.text;
  }
}

void LineFold::add(int rank, proto::OutputStream stream, const Line& line) {
  make_key(stream, line);
  Texts::value_type& entry = *texts_.try_emplace(key_).first;
  Rank& state = rank_of(rank);
  if (Group* const group = find_group(rank, state, entry.second); group != nullptr) {
    show_if_whole(group);
  } else {
    add_group(rank, stream, line, &entry);
  }
  keep_bounds();
}

void LineFold::add_group(int rank, proto::OutputStream stream, const Line& line, Texts::value_type* entry) {
  Rank& state = rank_of(rank);
  auto at = groups_.end();
  while (at != groups_.begin() && std::prev(at)->due > line.due) --at;
  Group* const group = &*groups_.insert(at, Group{});
  group->ranks = {rank};
  group->stream = stream;
  group->entry = entry;
  if (options_.ignores_numbers) group->own_text = line.text;
  group->has_rank_prefix = line.has_rank_prefix;
  group->due = line.due;
  group->stamp = line.stamp;
  group->place = state.shown + state.chain.size();
  group->running = state.is_ended ? 0 : 1;
  group->self = std::prev(at);
  entry->second.groups.push_back(group);
  state.chain.push_back(group);
  bytes_ += cost(*group);
  show_if_whole(group);
}

// Finds the oldest group of equal text that the rank may join, and joins it. nullptr if there is none.
LineFold::Group* LineFold::find_group(int rank, Rank& state, const Same& same) {
  // Groups below the rank's floor are of the past. They come first, because a rank joins groups in their order.
  const auto is_past = [&](const Group* group) { return group->level != 0 && group->level <= state.floor; };
  const auto oldest = same.groups.begin() + static_cast<std::ptrdiff_t>(same.first);
  auto at = std::partition_point(oldest, same.groups.end(), is_past);
  for (std::size_t i = 0; i < kMostCandidates && at != same.groups.end(); ++i, ++at) {
    const std::uint64_t level = level_to_join(rank, state, **at);
    if (level == 0) continue;
    join(rank, state, *at, level);
    return *at;
  }
  return nullptr;
}

// Returns the level that the group has once the rank has joined. 0 if the rank may not join.
std::uint64_t LineFold::level_to_join(int rank, const Rank& state, const Group& group) {
  if (group.level != 0) return group.level > state.floor ? group.level : 0;
  const int owner = group.ranks.front();
  if (owner == rank) return 0;
  if (group.place >= ranks_.at(owner).after_shared) {
    return std::max(ranks_.at(owner).floor, state.floor) + kLevelStep;
  }
  // The level must lie between those of the nearest groups of several ranks in the owner's chain.
  const Rank& other = ranks_.at(owner);
  const std::deque<Group*>& chain = other.chain;
  const auto here = static_cast<std::size_t>(group.place - other.shown);
  std::uint64_t upper = kNoUpperLevel;
  std::size_t steps = 0;
  for (std::size_t i = here + 1; i < chain.size() && upper == kNoUpperLevel; ++i) {
    if (chain[i]->level != 0) upper = chain[i]->level;
    if (++steps > kMostChainSteps) return 0;
  }
  if (upper == kNoUpperLevel) return std::max(other.floor, state.floor) + kLevelStep;
  std::uint64_t lower = 0;  // no group of the owner's chain below this one means that all earlier ones were shown
  for (std::size_t i = here; i > 0 && lower == 0; --i) {
    lower = chain[i - 1]->level;
    if (++steps > kMostChainSteps) return 0;
  }
  lower = std::max(lower, state.floor);
  return upper > lower + 1 ? lower + (upper - lower) / 2 : 0;
}

void LineFold::join(int rank, Rank& state, Group* group, std::uint64_t level) {
  if (group->level == 0) {
    Rank& owner = ranks_.at(group->ranks.front());
    owner.floor = std::max(owner.floor, level);
    owner.after_shared = std::max(owner.after_shared, group->place + 1);
  }
  group->level = level;
  group->ranks.push_back(rank);
  bytes_ += sizeof(int);
  if (!state.is_ended) ++group->running;
  state.floor = level;
  state.chain.push_back(group);
  state.after_shared = state.shown + state.chain.size();
}

void LineFold::show_if_whole(Group* group) {
  if (are_ranks_known_ && group->running == running_) show(group);
}

// Shows the group after all groups that precede it. The order has no cycles, so this ends.
void LineFold::show(Group* last) {
  struct Step {
    Group* group;
    std::size_t done;  // number of its ranks in whose chains it is the first
  };
  std::vector<Step> steps = {{last, 0}};
  while (!steps.empty()) {
    Step& step = steps.back();
    Group* const group = step.group;
    Group* before = nullptr;
    for (; step.done < group->ranks.size() && before == nullptr; ++step.done) {
      Group* const first = ranks_.at(group->ranks[step.done]).chain.front();
      if (first != group) before = first;
    }
    if (before != nullptr) {
      --step.done;  // look at this rank again
      steps.push_back({before, 0});
    } else {
      steps.pop_back();
      emit(group);
    }
  }
}

void LineFold::emit(Group* group) {
  for (const int rank : group->ranks) {
    Rank& state = ranks_.at(rank);
    state.chain.pop_front();
    ++state.shown;
  }
  bytes_ -= cost(*group);
  const int first = group->ranks.front();
  std::string_view text = group->own_text;
  if (!options_.ignores_numbers) text = std::string_view(group->entry->first).substr(1);
  std::string prefixed;
  if (group->has_rank_prefix && group->ranks.size() == 1) text = prefixed = with_rank_prefix(text, first);
  FoldedText shown{std::move(group->ranks), group->stream, text, group->stamp};
  std::ranges::sort(shown.ranks);
  show_(shown);
  forget(group);
}

// Removes a group that was shown.
void LineFold::forget(const Group* group) {
  Same& same = group->entry->second;
  const auto begin = same.groups.begin();
  const auto at = std::find(begin + static_cast<std::ptrdiff_t>(same.first), same.groups.end(), group);
  if (at - begin != static_cast<std::ptrdiff_t>(same.first)) {
    same.groups.erase(at);
  } else if (++same.first * 2 > same.groups.size()) {
    same.groups.erase(begin, at + 1);
    same.first = 0;
  }
  if (same.groups.empty()) texts_.erase(texts_.find(group->entry->first));
  groups_.erase(group->self);
}

void LineFold::end_rank(int rank) {
  for (const proto::OutputStream stream : {proto::OutputStream::kStdout, proto::OutputStream::kStderr}) {
    close_block(rank, stream);
  }
  Rank& state = rank_of(rank);
  if (std::exchange(state.is_ended, true)) return;
  for (StreamState& stream : state.streams) stream.is_open = false;
  --running_;
  for (Group* const group : state.chain) --group->running;
  if (!are_ranks_known_) return;
  if (running_ == 0) return drain();
  for (auto at = groups_.begin(); at != groups_.end();) {
    if (at->running < running_) {
      ++at;
      continue;
    }
    show(&*at);  // also shows others, so begin again
    at = groups_.begin();
  }
}

void LineFold::advance(FoldTime at) {
  while (!blocks_.empty() && blocks_.begin()->first <= at.now) {
    const auto [rank, stream] = blocks_.begin()->second;
    close_block(rank, stream);
  }
  while (!groups_.empty()) {
    const Group& front = groups_.front();
    if (front.due > at.now && front.stamp + options_.window > at.stamp) return;
    show(&groups_.front());
  }
}

void LineFold::drain() {
  while (!blocks_.empty()) {
    const auto [rank, stream] = blocks_.begin()->second;
    close_block(rank, stream);
  }
  while (!groups_.empty()) show(&groups_.front());
}

std::size_t LineFold::cost(const Group& group) const {
  const std::size_t text = group.entry->first.size() + group.own_text.size();
  return sizeof(Group) + text + group.ranks.size() * sizeof(int);
}

void LineFold::keep_bounds() {
  while (groups_.size() > options_.most_lines || bytes_ > options_.most_bytes) {
    if (!groups_.empty()) {
      show(&groups_.front());
    } else if (!blocks_.empty()) {
      const auto [rank, stream] = blocks_.begin()->second;
      close_block(rank, stream);
    } else {
      return;
    }
  }
}

std::optional<base::MonotonicTime> LineFold::due() const {
  std::optional<base::MonotonicTime> next;
  if (!groups_.empty()) next = groups_.front().due;
  if (!blocks_.empty()) next = next ? std::min(*next, blocks_.begin()->first) : blocks_.begin()->first;
  return next;
}

}  // namespace muster::launcherd::output
