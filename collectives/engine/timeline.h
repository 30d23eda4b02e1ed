// Records what happens to tensors and when, in Chrome's trace format (chrome://tracing, ui.perfetto.dev). The layout is
// Horovod's. Every tensor is a "process" with nested phases: NEGOTIATE_<OP>, then <OP> and its steps. During
// negotiation, a tick marks each rank that has submitted the tensor.
//
// Unnamed operations have numbered names (`allreduce.noname.7`), most of which never come again. Such operations share
// rows. An operation holds its row from its first begin() to the matching end(). Then another operation may use the
// row.
//
// The file is a valid JSON array after each write, even if the process is killed between two writes.
// Thread: one thread records events. Another one writes them, and sleeps while it has no events to write.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline engine {

class Timeline {
 public:
  // Replaces an existing file. The error names the file.
  static base::Result<std::unique_ptr<Timeline>> start(const std::string& path, bool marks_turns);
  // Writes the remaining events.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // The following may be called by one thread only.
  void begin(std::string_view tensor, std::string_view phase);
  void end(std::string_view tensor);
  void ready(std::string_view tensor, int rank);
  void turn();

 private:
  Timeline(std::string path, base::UniqueFd file, bool marks_turns);
  // Rows of the unnamed operations of one kind.
  struct Unnamed {
    std::set<int> free;  // free rows
    int rows = 0;
  };
  struct Held {
    int row = 0;
    int depth = 0;  // number of phases that have begun and not ended
  };
  int number_of(std::string_view tensor);
  int begin_in_row(std::string_view tensor);
  int end_in_row(std::string_view tensor);
  void add(std::string event);
  void write();
  bool write_all(std::string_view text);

  const std::string path_;
  const base::UniqueFd file_;
  const bool marks_turns_;
  const base::MonotonicTime began_;
  std::map<std::string, int, std::less<>> numbers_;
  std::map<std::string, Unnamed, std::less<>> unnamed_;  // by kind
  std::map<std::string, Held, std::less<>> held_;        // by the names of unnamed operations
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;  // events, each with a comma before it
  bool is_ending_ = false;
  bool is_broken_ = false;  // a write failed, so nothing more is written
  std::thread writer_;      // must end before all above
};

}  // namespace muster::collectives::engine
