// One connection of a torch TCPStore client, without its socket: request bytes go in, it uses a Store, reply bytes come
// out. tcp_store_protocol.h has the format and its sources. Semantics are those of torch's libuv server, and for A and
// B those of its older server. One difference: nothing is registered twice or left behind when a client disconnects.
//
// Owner: the server. Store and hub must outlive the sessions. Do not destroy a session in one of its own calls or in
// its `on_output`. Its destructor removes its waits.
// Thread: the loop's of the Store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_store_protocol.h"
#include "rendezvous/tcp_store_stream.h"

namespace muster::rendezvous {

struct TcpStoreLimits {
  TorchRequestLimits request;
  std::size_t max_reply_bytes = std::size_t{256}
                                << 20;  // limit for one reply (MULTI_GET, LIST_KEYS), and for unread events
  std::size_t unread_bytes = 1 << 20;   // a client with this much unread output is not served
  std::size_t max_waits = 16;           // waits of one connection at a time; torch's clients have one
  std::size_t max_watches = 1024;       // limit for one connection
  std::size_t max_total_bytes = std::size_t{1} << 30;  // limit for requests, replies and waits of all connections
};

// A wait of a client.
struct TcpStoreWait {
  std::string key;          // the first key that is missing, or the name of a barrier
  std::size_t others = 0;   // how many more keys are missing
  bool is_barrier = false;  // `key` names a barrier at which other clients are missing
  base::MonotonicTime since{};
};

// Returns how to name the wait after "waits for": `the key "k" in torch's store`.
std::string describe(const TcpStoreWait& wait);

class TcpStoreSession;

// State that the sessions of one Store share.
class TcpStoreHub {
 public:
  // tcp_store_stream.h explains `hint`.
  TcpStoreHub(Store* store, TorchGeneration hint, const TcpStoreLimits& limits)
      : store_(store), limits_(limits), peers_(std::make_shared<TorchPeers>(hint)) {}
  TcpStoreHub(const TcpStoreHub&) = delete;
  TcpStoreHub& operator=(const TcpStoreHub&) = delete;

  // Call it for a connection from `address` that has no session yet. The connection counts as silent while the result
  // lives. The result may outlive the hub.
  std::shared_ptr<void> expect_silent(const std::string& address) const;

  std::size_t total_bytes() const { return total_bytes_; }  // held by all sessions

 private:
  friend class TcpStoreSession;
  using Sessions = std::unordered_map<std::string, std::vector<TcpStoreSession*>>;

  Store* const store_;
  const TcpStoreLimits limits_;
  const std::shared_ptr<TorchPeers> peers_;
  Sessions watchers_;  // watching sessions by key
  Sessions arrived_;   // sessions that wait at a barrier, by the barrier's key
  std::size_t total_bytes_ = 0;
};

class TcpStoreSession {
 public:
  // `address` is the peer's address without its port, so all its connections have the same one. `on_output` is called
  // when other sessions have made output() grow or failure() appear.
  TcpStoreSession(TcpStoreHub* hub, std::string address, std::function<void()> on_output);
  ~TcpStoreSession();
  TcpStoreSession(const TcpStoreSession&) = delete;
  TcpStoreSession& operator=(const TcpStoreSession&) = delete;

  // Handles the next bytes of the stream; call it only while wants_input(). INVALID_ARGUMENT if they break torch's
  // protocol or its limits. RESOURCE_EXHAUSTED if they exceed our limits. Other codes are the Store's errors for which
  // the protocol has no reply. After an error the session serves no more; the rest of output() may still be sent.
  base::Status receive(std::string_view bytes);

  std::string_view output() const { return std::string_view(output_).substr(sent_); }
  // Call it when the first `size` bytes of output() were sent. The session then serves requests that it held back.
  // Errors as in receive().
  base::Status consume_output(std::size_t size);

  // Returns the oldest wait of this client. nullopt if it waits for nothing.
  std::optional<TcpStoreWait> oldest_wait() const;

  bool wants_input() const { return failure_.ok() && !is_held_back_; }
  const base::Status& failure() const {
    return failure_;
  }  // the error of the last call, or a later one that ended the session

 private:
  struct Wait {
    std::uint64_t token;
    Store::WaitId id;
    std::size_t bytes;  // the part of registered_bytes_ for this wait
    base::MonotonicTime since;
  };
  struct Arrival {
    std::string key;
    base::MonotonicTime since;
  };

  base::Status serve();
  base::Status execute();
  base::Status multi_set();
  base::Status compare_set();
  base::Status add();
  base::Status get();
  base::Status delete_key();
  base::Status list_keys();
  base::Status queue_pop();
  base::Status wait();
  base::Status barrier();
  base::Status watch();
  base::Status cancel_wait();

  bool has_all() const;
  base::Status may_wait() const;
  void cancel_waits();
  void wait_ended(std::uint64_t token);
  void barrier_passed(const std::string& key);
  void stop_waiting();

  template <typename Apply>
  base::Status change(std::string_view key, const Apply& apply);
  void notify(std::uint8_t event, std::string_view key, std::string_view before, std::string_view after);

  template <typename T>
  base::Status reply(T number);
  base::Status check_reply(std::size_t size) const;
  void grown_by_others();
  base::Status account();

  TcpStoreHub* const hub_;
  Store* const store_;
  const std::function<void()> on_output_;
  TorchRequestStream stream_;
  std::string output_;
  std::size_t sent_ = 0;           // bytes of output_ that were sent
  bool is_held_back_ = false;      // too much of output_ is unread
  bool is_serving_ = false;        // true while one of this session's functions runs
  std::vector<Wait> waits_;        // registered in the Store
  std::vector<Arrival> barriers_;  // barriers at which it has arrived and waits
  std::vector<std::string> watched_;
  std::uint64_t next_token_ = 1;
  std::size_t registered_bytes_ = 0;  // bytes of the keys of waits, barriers and watches
  std::size_t accounted_bytes_ = 0;   // this session's part of the hub's total
  base::Status failure_;
};

}  // namespace muster::rendezvous
