// Brings files to the hosts of a job before it starts (--stage): once for each file system, and only what has changed.
// Loop thread only.
//
// For each path one after the other: the source is listed, every agent opens its folder and leaves a mark in it, every
// agent says which marks it sees, and of hosts that see each other's the first one gets the files. A folder in which
// the source's own machine sees a mark is the source itself, and is left alone.
//
// A host that answers nothing for too long ends the staging: its disk hangs. How long an answer may take grows with the
// bytes that the host has to read or write for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/stage/stage_source.h"
#include "model/job_spec.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline stage {

struct StagingLimits {
  std::chrono::milliseconds period{5'000};    // between two lines of progress, and two looks at who is silent
  std::chrono::milliseconds silence{60'000};  // for an answer, and on top of it:
  std::uint64_t slowest_disk = 10'000'000;    // bytes a second that a disk moves at least
};

class Staging {
 public:
  struct Host {
    int agent = 0;
    std::string name;
  };
  struct Events {
    std::function<void(int agent, v1::LauncherMessage message)> send;
    std::function<void(const std::string& line)> say;  // what was copied, and how far it is
    // Once, the last call: a sentence that names host and path, or ok. The object is not destroyed within it.
    std::function<void(base::Status)> done;
  };

  // `hosts` is not empty. `token`: random, names the marks. `never_staged`: a folder that no host may get.
  Staging(base::Loop& loop, std::vector<model::StagedPath> paths, const std::vector<Host>& hosts, std::string token,
          const std::string& never_staged, Events events, StagingLimits limits = {});

  void start() { next_path(); }
  void answered(int agent, const v1::StageAnswer& answer);

 private:
  enum class Phase { kScan, kOpen, kMarks, kCopy, kClose, kOver };
  struct Want {
    int entry = 0;
    std::string digest;  // of what is there; empty: there is nothing
  };
  struct Unanswered {
    std::uint64_t id = 0;
    std::size_t bytes = 0;     // in the order
    std::uint64_t moving = 0;  // bytes that the host's disk may have to move before it answers
  };
  struct Place {  // a host's folder
    Host host{};
    std::deque<Unanswered> unanswered{};
    std::size_t in_flight = 0;
    std::chrono::milliseconds silent{};  // since its last answer, or since it owes one; not while we are stopped
    std::size_t first_seen = 0;          // the first host whose mark is here
    bool gets_files = false;
    std::size_t next_entry = 0;  // to be told
    std::deque<Want> wants{};
    int writing = -1;  // entry; -1: none
    std::uint64_t offset = 0;
    bool is_reading = false;      // the source is asked for what comes next
    bool waits_for_room = false;  // in no_room_
  };

  void next_path();
  void scanned(base::Result<StageTree> tree);
  void ask_all(Phase phase, const std::function<void(v1::StageOrder&, std::size_t)>& fill);
  void order(Place& place, v1::StageOrder order, std::size_t bytes = 0, std::uint64_t moving = 0);
  void check_silence();
  void count_down();
  void choose_places(const std::vector<std::string>& at_source);
  void pump(std::size_t index);
  void pump_waiting();
  void tell_entries(Place& place);
  bool take_want(std::size_t index);
  void send_piece(std::size_t index);
  bool is_complete(const Place& place) const;
  void finish_copy();
  void tell_result();
  void tell_progress();
  void fail(base::Status why);
  std::string source_path(int entry) const;
  StageSource::Link source_link() const;
  StageSource::Stamp source_stamp(int entry) const;
  std::string mark_of(std::size_t index) const;

  base::Loop& loop_;
  const std::vector<model::StagedPath> paths_;
  const std::string token_;
  const Events events_;
  const StagingLimits limits_;
  StageSource source_;
  std::vector<Place> places_;
  std::size_t path_ = 0;  // one behind that of now
  Phase phase_ = Phase::kScan;
  StageTree tree_;
  std::string directory_;     // on the hosts
  std::string file_path_;     // of a source that is a file
  bool is_own_name_ = false;  // … and is called the same on the hosts
  std::size_t waiting_ = 0;   // for the answers of so many hosts
  std::uint64_t next_id_ = 1;
  std::map<int, std::string> digests_;  // of the source, by entry
  std::set<int> sent_;                  // entries
  std::uint64_t sent_bytes_ = 0;
  std::size_t to_agents_ = 0;          // bytes that are read, or sent and not answered, for all
  std::deque<std::size_t> no_room_{};  // places, in the order in which they came
  base::Timer progress_;
};

}  // namespace muster::launcherd::stage
