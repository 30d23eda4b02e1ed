// Copies files to the hosts of a job before the job starts (--stage). Each file system gets the files once, and only
// those that have changed.
//
// It handles one path after the other:
//   1. It lists the source.
//   2. Every agent opens its folder and leaves a mark in it.
//   3. Every agent reports which marks it sees. Hosts that see each other's marks share a file system.
//   4. The first host of each file system gets the files.
//
// Several hosts get large files by a broadcast (launcherd/stage/broadcast.h): most blocks go from host to host.
//
// If the launcher's machine sees a host's mark in the source, that host's folder is the source. It gets no files.
//
// If a host does not answer in time, the staging fails, because the host's disk hangs. The limit grows with the bytes
// that the host must read or write before it answers.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/stage/broadcast.h"
#include "launcherd/stage/stage_source.h"
#include "model/job_spec.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline stage {

struct StagingLimits {
  // Time between two lines of progress, and between two checks for silent hosts.
  std::chrono::milliseconds period{5'000};
  std::chrono::milliseconds silence{60'000};  // limit for an answer, plus the time that its bytes take
  std::uint64_t slowest_disk = 10'000'000;    // bytes a second that every disk can move at least
  // A broadcast costs a few round trips, so small or few copies do without.
  std::size_t broadcast_hosts = 3;
  std::uint64_t broadcast_bytes = 8'000'000;
};

class Staging {
 public:
  struct Host {
    int agent = 0;
    std::string name;
    std::string address{};  // at which the job's other hosts reach it; empty if it is not known
  };
  struct Events {
    std::function<void(int agent, v1::LauncherMessage message)> send;
    std::function<void(const std::string& line)> say;   // reports progress, and what was copied
    std::function<void(const std::string& line)> note;  // reports details
    // Called once, after all other events. The status is ok, or its message names host and path. The handler must not
    // destroy the Staging object.
    std::function<void(base::Status)> done;
  };

  // `hosts` must not be empty. `token` is random and part of the marks' names. `never_staged` is a folder that must not
  // be staged.
  // `environment` is not empty if the only path is the archive of this environment (--stage-env). Then the file goes to
  // each host's folder of environments, and messages name the environment.
  Staging(base::Loop& loop, std::vector<model::StagedPath> paths, const std::vector<Host>& hosts, std::string token,
          const std::string& never_staged, Events events, StagingLimits limits = {}, std::string environment = "");

  void start() { next_path(); }
  void answered(int agent, const v1::StageAnswer& answer);

 private:
  // Either kCopy, or the three steps of a broadcast: it begins, hosts compare, hosts exchange blocks.
  enum class Phase { kScan, kOpen, kMarks, kCopy, kBegin, kCompare, kSpread, kClose, kOver };
  struct Want {
    int entry = 0;
    std::string digest{};     // digest of the host's file; empty if the host has no file
    std::uint64_t begin = 0;  // the wanted bytes
    std::uint64_t end = 0;
  };
  struct Unanswered {
    std::uint64_t id = 0;
    std::size_t bytes = 0;     // size of the data in the order
    std::uint64_t moving = 0;  // bytes that the host's disk may have to read or write before it answers
  };
  struct Place {  // the folder on one host
    Host host{};
    std::deque<Unanswered> unanswered{};
    std::size_t in_flight = 0;
    // Time since the host's last answer, or since the first order after that answer. Does not grow while the launcher
    // is stopped.
    std::chrono::milliseconds silent{};
    std::size_t first_seen = 0;  // index of the first host whose mark is in this folder
    bool gets_files = false;
    std::size_t in_broadcast = 0;  // number of the host there
    std::size_t next_entry = 0;    // next entry in the list for the host
    std::deque<Want> wants{};
    int writing = -1;  // the entry that is being sent; -1 if none
    std::uint64_t offset = 0;
    std::uint64_t end = 0;        // of the bytes that are being sent
    bool is_reading = false;      // a read of the source is under way
    bool waits_for_room = false;  // true while this place is in no_room_
  };

  void next_path();
  void scanned(base::Result<StageTree> tree);
  void ask_all(Phase phase, const std::function<void(v1::StageOrder&, std::size_t)>& fill);
  void order(Place& place, v1::StageOrder order, std::size_t bytes = 0, std::uint64_t moving = 0);
  void check_silence();
  void count_down();
  void choose_places(const std::vector<std::string>& at_source);
  bool is_copying() const { return phase_ == Phase::kCopy || phase_ == Phase::kCompare || phase_ == Phase::kSpread; }
  void begin_broadcast();
  Broadcast::Events broadcast_events();
  void broadcast_began(Place& place, const v1::StageAnswer& answer);
  void spread();
  void answered_in_copy(std::size_t index, const v1::StageAnswer& answer);
  bool waits_for_blocks(const Place& place) const;
  void pump(std::size_t index);
  void pump_waiting();
  void send_entries(Place& place);
  bool begin_next_want(std::size_t index);
  void send_piece(std::size_t index);
  bool is_complete(const Place& place) const;
  void finish_copy();
  void report_result();
  void report_progress();
  void fail(base::Status why);
  bool is_environment() const { return !environment_.empty(); }
  std::string_view option() const { return is_environment() ? "--stage-env" : "--stage"; }
  // The source and the target, for messages.
  std::string shown_source() const;
  std::string shown_target() const;
  std::string source_path(int entry) const;
  StageSource::Link source_link() const;
  StageSource::Stamp source_stamp(int entry) const;
  std::string mark_of(std::size_t index) const;

  base::Loop& loop_;
  const std::vector<model::StagedPath> paths_;
  const std::string token_;
  const Events events_;
  const StagingLimits limits_;
  const std::string environment_;
  StageSource source_;
  std::vector<Place> places_;
  std::map<int, std::size_t> place_of_;  // index by agent
  std::size_t path_ = 0;                 // index of the current path plus one
  Phase phase_ = Phase::kScan;
  StageTree tree_;
  std::string directory_;     // the folder on the hosts
  std::string file_path_;     // only if the source is a file
  bool is_own_name_ = false;  // true if the file has the same name on the hosts
  std::size_t waiting_ = 0;   // number of hosts whose answers are missing
  std::uint64_t next_id_ = 1;
  std::map<int, std::string> digests_;  // digests of the source's files, by entry
  std::set<int> sent_;                  // entries of which some bytes were sent
  std::uint64_t sent_bytes_ = 0;
  std::size_t to_agents_ = 0;          // bytes for all hosts that are being read, or were sent and not yet answered
  std::deque<std::size_t> no_room_{};  // indexes of waiting places, by order of arrival
  std::vector<std::size_t> broadcast_places_;  // indexes of places, by number in the broadcast
  std::uint64_t reads_at_last_check_ = 0;
  base::Timer progress_;
  std::unique_ptr<Broadcast> broadcast_;
};

}  // namespace muster::launcherd::stage
