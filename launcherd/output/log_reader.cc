// LogReader: the loop's side queues commands; the thread's side (run) serves cursors in turns.
// Read run and serve first, then handle_events and the handle functions, then the public functions.
#include "launcherd/output/log_reader.h"

#include <utility>

#include "base/thread.h"

namespace muster::launcherd::inline output {

base::Result<std::unique_ptr<LogReader>> LogReader::start(base::Loop& loop) {
  std::unique_ptr<LogReader> made(new LogReader(loop));
  MUSTER_ASSIGN_OR_RETURN(made->thread_, base::start_thread([self = made.get()] { self->run(); }));
  return made;
}

LogReader::~LogReader() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  work_arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LogReader::put(Command command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  work_arrived_.notify_one();
}

std::uint64_t LogReader::open(Query query) {
  loop_.assert_inside();
  put(Open{++last_cursor_, std::move(query)});
  return last_cursor_;
}

void LogReader::next(std::uint64_t cursor, Done done) {
  loop_.assert_inside();
  const bool is_first = waiting_.emplace(cursor, std::move(done)).second;
  MUSTER_CHECK(is_first);
  put(Next{cursor});
}

void LogReader::close(std::uint64_t cursor) {
  loop_.assert_inside();
  waiting_.erase(cursor);
  put(Close{cursor});
}

void LogReader::journal_changed(const std::string& path, std::uint64_t readable) {
  {
    const std::lock_guard lock(mutex_);
    changed_[path] = readable;
  }
  work_arrived_.notify_one();
}

void LogReader::journal_ended(const std::string& path) {
  put(Ended{path});
}

void LogReader::run() {
  while (handle_events()) {
    for (const std::uint64_t id : runnable()) serve(id, &readings_.at(id));
  }
}

// Waits for work and handles the queued commands. Returns false when the reader ends.
bool LogReader::handle_events() {
  std::deque<Command> commands;
  std::map<std::string, std::uint64_t> changed;
  {
    const bool is_busy = !runnable().empty();
    std::unique_lock lock(mutex_);
    work_arrived_.wait(lock, [&] { return is_busy || is_ending_ || !commands_.empty() || !changed_.empty(); });
    if (is_ending_) return false;
    commands.swap(commands_);
    changed.swap(changed_);
  }
  // Apply changes before commands, because a command may end a journal, and an ended journal must not change.
  for (const auto& [path, readable] : changed) {
    readable_[path] = readable;
    wake(path);
  }
  for (Command& command : commands) {
    std::visit([this](auto& one) { handle(std::move(one)); }, command);
  }
  return true;
}

void LogReader::handle(Open command) {
  Reading& reading = readings_[command.cursor];
  reading.is_followed = command.query.follow;
  reading.cursor = std::make_unique<LogCursor>(std::move(command.query));
}

void LogReader::handle(const Next& command) {
  const auto found = readings_.find(command.cursor);
  if (found != readings_.end()) found->second.is_requested = true;
}

void LogReader::handle(const Close& command) {
  readings_.erase(command.cursor);
}

void LogReader::handle(const Ended& command) {
  readable_.erase(command.path);
  for (auto& [id, reading] : readings_) {
    if (reading.cursor->query().path == command.path) reading.is_followed = false;
  }
  wake(command.path);
}

void LogReader::wake(const std::string& path) {
  for (auto& [id, reading] : readings_) {
    if (reading.cursor->query().path == path) reading.is_dry = false;
  }
}

std::vector<std::uint64_t> LogReader::runnable() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, reading] : readings_) {
    if (reading.is_requested && !reading.is_dry) ids.push_back(id);
  }
  return ids;
}

void LogReader::serve(std::uint64_t id, Reading* reading) {
  const auto found = readable_.find(reading->cursor->query().path);
  LogPage page;
  const auto state =
      reading->cursor->read(found == readable_.end() ? std::nullopt : std::optional(found->second), &page);
  if (state.ok() && *state == LogCursor::State::kSlice) return;
  if (state.ok() && *state == LogCursor::State::kDry) {
    reading->is_dry = reading->is_followed;
    if (reading->is_dry) return;
    page.is_end = true;
  }
  reading->is_requested = false;
  answer(id, state.ok() ? base::Result<LogPage>(std::move(page)) : base::Result<LogPage>(state.status()));
}

void LogReader::answer(std::uint64_t id, base::Result<LogPage> page) {
  auto shared = std::make_shared<base::Result<LogPage>>(std::move(page));
  loop_.post(gate_.wrap([this, id, shared] { deliver(id, std::move(*shared)); }));
}

void LogReader::deliver(std::uint64_t id, base::Result<LogPage> page) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;  // the cursor was closed before its page was ready
  const Done done = std::move(found->second);
  waiting_.erase(found);
  done(std::move(page));
}

}  // namespace muster::launcherd::output
