// What happens to tensors and when, in Chrome's trace format (chrome://tracing, ui.perfetto.dev), laid out as Horovod's
// users know it: every tensor is a "process" with nested phases NEGOTIATE_<OP>, <OP> and what is done within; a tick
// while it is negotiated for every rank that has submitted it.
//
// Operations without a name have numbers (`allreduce.noname.7`) that hardly come again. They share rows: one has a row
// from its first begin() to the end() of that, and the row is free for another then.
//
// The file is a valid JSON array whenever something was written, also when the process is killed between two writes.
// Events are given by one thread and written by another, which sleeps while there are none.
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
  // An existing file is replaced. The error names it.
  static base::Result<std::unique_ptr<Timeline>> start(const std::string& path, bool marks_turns);
  // Writes what is left.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // One thread.
  void begin(std::string_view tensor, std::string_view phase);
  void end(std::string_view tensor);
  void ready(std::string_view tensor, int rank);
  void turn();

 private:
  Timeline(std::string path, base::UniqueFd file, bool marks_turns);
  // Operations without a name, of a kind.
  struct Unnamed {
    std::set<int> free;  // rows
    int rows = 0;
  };
  struct Held {
    int row = 0;
    int depth = 0;  // of phases that have begun
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
  std::map<std::string, Held, std::less<>> held_;        // by the names of operations without a name
  std::mutex mutex_;
  std::condition_variable news_;
  std::string waiting_;  // events, each with a comma before it
  bool is_ending_ = false;
  bool is_broken_ = false;  // nothing can be written any more
  std::thread writer_;      // ends first
};

}  // namespace muster::collectives::engine
