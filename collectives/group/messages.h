// Point-to-point messages between ranks of a communicator. They are not ordered with its collectives and involve no
// other ranks. Messages from one rank to another arrive in the order of the sends. Both calls must agree in count, type
// and tag.
//
// Each direction of each pair of ranks is a line. The first message of a line moves, the others wait. A thread that
// waits for its own message moves all messages that can move. A background thread moves messages that were only
// started. It starts with the first of them and sleeps while it has no started messages. So a circular exchange of
// large messages completes if either side of each message was started.
//
// Owner: the communicator, which outlives it.
// Thread: any.
// Errors: the first failure fails all messages. It may be a mismatch, a lost rank, a passed deadline or a raised abort
// record.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/call/call.h"
#include "collectives/call/request.h"
#include "collectives/group/peer_links.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline group {

// The callbacks that messages need from their communicator. Called from any thread.
struct MessageOwner {
  // Called once. It finds the cause, reports it to all ranks, and returns the status that all ranks get. It may take a
  // second.
  std::function<base::Status(const Failure& failure)> fail;
  // Returns how a peer has left in good order, such as "has closed its communicator". Empty while the peer is here.
  std::function<std::string(int peer)> left;
};

class Messages {
 public:
  // RESOURCE_EXHAUSTED if no file descriptor is left.
  static base::Result<std::unique_ptr<Messages>> create(std::unique_ptr<PeerLinks> links, MessageOwner owner);
  ~Messages();  // waits for all started messages
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // `peer` is another rank of the communicator; `call.root` is the tag. A send ends when its link has taken all bytes.
  // So a large message needs a receiver that has called.
  base::Status send(int peer, const Call& call, std::span<const std::byte> bytes);
  base::Status receive(int peer, const Call& call, std::span<std::byte> place);
  // These two calls start a message and do not wait for it.
  std::shared_ptr<Request> start_send(int peer, const Call& call, std::span<const std::byte> bytes);
  std::shared_ptr<Request> start_receive(int peer, const Call& call, std::span<std::byte> place);

 private:
  struct Transfer;
  struct Line;
  using Lock = std::unique_lock<std::mutex>;

  Messages(std::unique_ptr<PeerLinks> links, MessageOwner owner, base::UniqueFd wake);
  base::Status wait_for(int peer, const std::shared_ptr<Transfer>& transfer);
  std::shared_ptr<Request> start(int peer, std::shared_ptr<Transfer> transfer);
  void add(int peer, const std::shared_ptr<Transfer>& transfer);
  void run();

  // The following functions need the lock. Those that get `lock` as an argument release it for a while.
  template <typename IsOver>
  void drive(Lock& lock, const IsOver& is_over);
  bool turn();
  bool turn(Line& line);
  void drop_idle();
  bool begin(Line& line, Transfer& transfer);
  void inspect();
  void inspect_line(Line& line);
  void settle(Lock& lock);
  void broken(const Line& line, const base::Status& why);
  void finish_first(Line& line, const base::Status& status);
  void finish_all(const base::Status& status);
  bool add_polls(std::vector<pollfd>& fds) const;

  // The following functions must be called without the lock.
  template <typename IsOver>
  void sleep(const IsOver& is_over);
  void wake();

  const std::unique_ptr<PeerLinks> links_;
  const MessageOwner owner_;
  const base::UniqueFd wake_;  // an eventfd that wakes threads in poll()
  const WaitPolicy patient_;   // without a deadline, because each message has its own
  std::atomic<int> pollers_{0};

  std::mutex mutex_;  // guards all below, and links_
  std::condition_variable work_changed_;
  std::vector<Line> lines_;         // one line to and one from each peer
  std::vector<Line*> active_;       // lines with messages; empty lines are removed before the lock is released
  int started_ = 0;                 // messages that the thread must move
  bool has_failed_ = false;         // nothing moves after a failure
  std::optional<Failure> failure_;  // not reported yet
  base::Status final_status_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::collectives::group
