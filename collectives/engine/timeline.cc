// The timeline: rows of tensors, events as JSON, and the thread that writes them.
// Read begin(), end() and ready() first, then add() and write().
#include "collectives/engine/timeline.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "collectives/call/notice.h"

namespace muster::collectives::inline engine {
namespace {

constexpr std::string_view kEnd = "\n]\n";

// Quotes a JSON string. Names are the user's bytes, so non-ASCII bytes are copied as they are.
std::string json_quoted(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      made += '\\';
      made += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      made += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      made += c;
    }
  }
  return made + '"';
}

// Returns the `allreduce.noname` of `allreduce.noname.7`, which muster/world.py generates. Empty means that the user
// named the operation.
std::string_view unnamed_kind(std::string_view tensor) {
  constexpr std::string_view kMark = ".noname.";
  const std::size_t mark = tensor.find(kMark);
  if (mark == std::string_view::npos) return {};
  const std::string_view number = tensor.substr(mark + kMark.size());
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return {};
  return tensor.substr(0, mark + kMark.size() - 1);
}

std::int64_t microseconds_since(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - time).count();
}

}  // namespace

base::Result<std::unique_ptr<Timeline>> Timeline::start(const std::string& path, bool marks_turns) {
  base::UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) {
    return base::invalid_argument("cannot write the timeline {}: {}", path, std::strerror(errno));
  }
  std::unique_ptr<Timeline> made(new Timeline(path, std::move(file), marks_turns));
  try {
    made->writer_ = std::thread([timeline = made.get()] { timeline->write(); });
  } catch (const std::system_error& problem) {
    return base::resource_exhausted("cannot start a thread for the timeline {}: {}", path, problem.what());
  }
  return made;
}

Timeline::Timeline(std::string path, base::UniqueFd file, bool marks_turns)
    : path_(std::move(path)),
      file_(std::move(file)),
      marks_turns_(marks_turns),
      began_(std::chrono::steady_clock::now()) {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  waiting_ = fmt::format(
      R"({{"name":"process_name","ph":"M","pid":0,"args":{{"name":"","start_time_since_epoch_in_micros":{}}}}})",
      std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count());
}

Timeline::~Timeline() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  if (writer_.joinable()) writer_.join();
}

int Timeline::number_of(std::string_view tensor) {
  const auto found = numbers_.find(tensor);
  if (found != numbers_.end()) return found->second;
  const int number = static_cast<int>(numbers_.size()) + 1;
  numbers_.emplace(tensor, number);
  add(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", number, json_quoted(tensor)));
  add(fmt::format(R"({{"name":"process_sort_index","ph":"M","pid":{},"args":{{"sort_index":{}}}}})", number, number));
  return number;
}

int Timeline::begin_in_row(std::string_view tensor) {
  const std::string_view kind = unnamed_kind(tensor);
  if (kind.empty()) return number_of(tensor);
  Held& held = held_[std::string(tensor)];
  if (held.depth++ > 0) return held.row;
  Unnamed& unnamed = unnamed_[std::string(kind)];
  if (unnamed.free.empty()) unnamed.free.insert(number_of(fmt::format("{}.{}", kind, ++unnamed.rows)));
  held.row = unnamed.free.extract(unnamed.free.begin()).value();
  return held.row;
}

int Timeline::end_in_row(std::string_view tensor) {
  const auto held = held_.find(tensor);
  if (held == held_.end()) return number_of(tensor);
  const int row = held->second.row;
  if (--held->second.depth == 0) {
    unnamed_[std::string(unnamed_kind(tensor))].free.insert(row);
    held_.erase(held);
  }
  return row;
}

void Timeline::begin(std::string_view tensor, std::string_view phase) {
  const int number = begin_in_row(tensor);
  add(fmt::format(R"({{"ph":"B","name":{},"ts":{},"pid":{}}})", json_quoted(phase), microseconds_since(began_),
                  number));
}

void Timeline::end(std::string_view tensor) {
  const int number = end_in_row(tensor);
  add(fmt::format(R"({{"ph":"E","ts":{},"pid":{}}})", microseconds_since(began_), number));
}

void Timeline::ready(std::string_view tensor, int rank) {
  const auto held = held_.find(tensor);
  const int number = held == held_.end() ? number_of(tensor) : held->second.row;
  add(fmt::format(R"({{"ph":"X","name":"{}","ts":{},"pid":{},"dur":0}})", rank, microseconds_since(began_), number));
}

void Timeline::turn() {
  if (!marks_turns_) return;
  add(fmt::format(R"({{"ph":"i","name":"CYCLE_START","ts":{},"pid":0,"s":"g"}})", microseconds_since(began_)));
}

void Timeline::add(std::string event) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_broken_) return;
    was_empty = waiting_.empty();
    waiting_ += ",\n";
    waiting_ += event;
  }
  if (was_empty) changed_.notify_one();
}

void Timeline::write() {
  bool is_first = true;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::string text;
    text.swap(waiting_);
    lock.unlock();
    // Write the end of the array behind the events. The next write overwrites that end.
    if (is_first) text.insert(0, "[\n");
    const bool is_at_end = is_first || lseek(file_.get(), -static_cast<off_t>(kEnd.size()), SEEK_END) >= 0;
    is_first = false;
    text += kEnd;
    if (!is_at_end || !write_all(text)) {
      print_notice(fmt::format("cannot write more of the timeline {}: {}", path_, std::strerror(errno)));
      lock.lock();
      is_broken_ = true;
      waiting_.clear();
      return;
    }
    lock.lock();
  }
}

bool Timeline::write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace muster::collectives::engine
