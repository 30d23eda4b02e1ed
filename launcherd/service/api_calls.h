// ApiCalls carries calls of launcher.proto from gRPC's threads to the loop. It checks the caller's role, posts the
// call to the loop, and sends the reply from there. At shutdown of the launcher, close() ends open streams. Private to
// this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/loop.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/service/caller_role.h"
#include "launcherd/service/duplex_call.h"
#include "launcherd/service/grpc_status.h"
#include "launcherd/service/stream_call.h"
#include "launcherd/service/unary_call.h"

namespace muster::launcherd::inline service {

inline grpc::Status launcher_leaves() {
  return {grpc::StatusCode::UNAVAILABLE, "the launcher is shutting down: its jobs are over, or it was stopped"};
}

class ApiCalls : public std::enable_shared_from_this<ApiCalls> {
 public:
  // Reports the peer of each allowed call to `on_allowed`, on gRPC's threads.
  ApiCalls(base::Loop& loop, ApiHandler* handler, std::function<void(const std::string& peer)> on_allowed)
      : loop_(loop), handler_(handler), on_allowed_(std::move(on_allowed)) {}

  template <typename Request, typename Answer>
  grpc::ServerUnaryReactor* unary(grpc::CallbackServerContext* context, Role role,
                                  void (ApiHandler::*serve)(const Request&, Reply<Answer>), const Request* request,
                                  Answer* answer) {
    return begin_unary(
        context, role,
        [serve](ApiHandler& handler, const Request& asked, Reply<Answer> reply) {
          (handler.*serve)(asked, std::move(reply));
        },
        request, answer);
  }

  // For functions that need the name of the caller.
  template <typename Request, typename Answer>
  grpc::ServerUnaryReactor* unary(grpc::CallbackServerContext* context, Role role,
                                  void (ApiHandler::*serve)(const Request&, const std::string&, Reply<Answer>),
                                  const Request* request, Answer* answer) {
    return begin_unary(
        context, role,
        [serve, user = user_of(*context)](ApiHandler& handler, const Request& asked, Reply<Answer> reply) {
          (handler.*serve)(asked, user, std::move(reply));
        },
        request, answer);
  }

  template <typename Request, typename Answer>
  grpc::ServerWriteReactor<Answer>* stream(grpc::CallbackServerContext* context, Role role,
                                           Gone (ApiHandler::*serve)(const Request&, Replies<Answer>),
                                           const Request* request) {
    auto number = std::make_shared<std::uint64_t>(0);  // set and read only on the loop
    auto call = std::make_shared<StreamCall<Answer>>([&loop = loop_, weak = weak_from_this(), number] {
      loop.post([weak, number] {
        if (const auto self = weak.lock()) self->ended(*number);
      });
    });
    call->begin();
    if (const base::Status refused = check_role(*context, role, *revoked()); !refused.ok()) {
      call->finish(to_grpc(refused));
      return call.get();
    }
    on_allowed_(context->peer());
    const std::uint64_t turn = await_turn([call] { call->finish(launcher_leaves()); });
    loop_.post([weak = weak_from_this(), call, number, turn, serve, request = *request] {
      const auto self = weak.lock();
      if (self == nullptr || !self->take_turn(turn)) return;
      *number = self->next_++;
      self->streams_[*number].finish = [call](const grpc::Status& status) { call->finish(status); };
      Gone gone = (self->handler_->*serve)(request, self->replies_of(call));
      // The end of the call is posted as well, so ended() cannot have run yet.
      self->streams_[*number].gone = std::move(gone);
    });
    return call.get();
  }

  // For a stream both ways. The first request begins it.
  template <typename Request, typename Answer>
  grpc::ServerBidiReactor<Request, Answer>* duplex(grpc::CallbackServerContext* context, Role role,
                                                   Requests<Request> (ApiHandler::*serve)(const Request&,
                                                                                          Replies<Answer>)) {
    using Call = DuplexCall<Request, Answer>;
    struct Stream {  // used only on the loop
      std::uint64_t number = 0;
      std::weak_ptr<Call> call;
      std::optional<Requests<Request>> requests;  // set by the first request
    };
    auto stream = std::make_shared<Stream>();
    auto call = std::make_shared<Call>(
        [&loop = loop_, weak = weak_from_this(), stream] {
          loop.post([weak, stream] {
            if (const auto self = weak.lock()) self->ended(stream->number);
          });
        },
        [&loop = loop_, weak = weak_from_this(), stream, serve](std::shared_ptr<Request> request) {
          loop.post([weak, stream, serve, request] {
            const auto self = weak.lock();
            const auto open = stream->call.lock();
            if (self == nullptr || open == nullptr || self->is_closed_) return;
            self->next_request(stream, open, serve, request.get());
          });
        });
    stream->call = call;
    call->begin();
    if (const base::Status refused = check_role(*context, role, *revoked()); !refused.ok()) {
      call->finish(to_grpc(refused));
      return call.get();
    }
    on_allowed_(context->peer());
    const std::uint64_t turn = await_turn([call] { call->finish(launcher_leaves()); });
    loop_.post([weak = weak_from_this(), call, stream, turn] {
      const auto self = weak.lock();
      if (self == nullptr || !self->take_turn(turn)) return;
      stream->number = self->next_++;
      self->streams_[stream->number].finish = [call](const grpc::Status& status) { call->finish(status); };
      call->read_next();
    });
    return call.get();
  }

  // Applies to all later calls, also on connections that are already open. Any thread.
  void set_revoked(RevokedCertificates revoked) {
    const std::lock_guard lock(mutex_);
    revoked_ = std::make_shared<const RevokedCertificates>(std::move(revoked));
  }

  // All later calls get UNAVAILABLE, and so do calls that wait for the loop. Open streams end with UNAVAILABLE.
  void close() {
    is_closed_ = true;
    std::map<std::uint64_t, std::function<void()>> late;
    {
      const std::lock_guard lock(mutex_);
      takes_calls_ = false;
      late.swap(waiting_);
    }
    for (const auto& [turn, refuse] : late) refuse();
    for (auto& [number, open] : std::exchange(streams_, {})) {
      open.finish(launcher_leaves());
      if (open.gone) open.gone();
    }
  }

 private:
  template <typename Request, typename Answer, typename Serve>
  grpc::ServerUnaryReactor* begin_unary(grpc::CallbackServerContext* context, Role role, Serve serve,
                                        const Request* request, Answer* answer) {
    auto call = std::make_shared<UnaryCall<Answer>>(answer);
    call->begin();
    if (const base::Status refused = check_role(*context, role, *revoked()); !refused.ok()) {
      call->answer(to_grpc(refused), Answer());
      return call.get();
    }
    on_allowed_(context->peer());
    const std::uint64_t turn = await_turn([call] { call->answer(launcher_leaves(), Answer()); });
    loop_.post([weak = weak_from_this(), call, turn, serve, request = *request] {
      const auto self = weak.lock();
      if (self == nullptr || !self->take_turn(turn)) return;
      serve(*self->handler_, request, [call](base::Result<Answer> result) {
        const grpc::Status status = to_grpc(result.status());
        call->answer(status, result.ok() ? std::move(*result) : Answer());
      });
    });
    return call.get();
  }

  // Handles one request of a stream both ways, or nullptr if no more come. On the loop.
  template <typename Stream, typename Call, typename Serve, typename Request>
  void next_request(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Call>& call, Serve serve,
                    const Request* request) {
    const auto open = streams_.find(stream->number);
    if (open == streams_.end()) return;  // the caller has left
    if (request == nullptr) {
      // Later, this says nothing: gRPC reports a caller that died in the same way as one that sends no more.
      if (!stream->requests) {
        call->finish({grpc::StatusCode::INVALID_ARGUMENT, "the stream ended before its first request"});
      }
      return;
    }
    if (stream->requests) {
      if (stream->requests->next) stream->requests->next(*request);
    } else {
      stream->requests = (handler_->*serve)(*request, replies_of(std::shared_ptr<typename Call::Base>(call)));
      // The handler's functions own the call by its replies, and the call owns the stream: the end breaks that cycle.
      open->second.gone = [stream] {
        const Gone gone = std::exchange(stream->requests, std::nullopt)->gone;
        if (gone) gone();
      };
    }
    call->read_next();
  }

  // An open stream: how to end it, and what to call when its caller leaves.
  struct Open {
    std::function<void(const grpc::Status&)> finish;
    Gone gone;
  };

  template <typename Answer, typename Reactor>
  Replies<Answer> replies_of(std::shared_ptr<StreamCall<Answer, Reactor>> call) {
    return {.send = [call](Answer answer) { call->send(std::move(answer)); },
            .done = [call](const base::Status& status) { call->finish(to_grpc(status)); },
            .when_written =
                [call, weak = weak_from_this(), &loop = loop_](base::Loop::Task task) {
                  call->when_written([weak, &loop, task = std::move(task)] {
                    loop.post([weak, task] {
                      const auto self = weak.lock();
                      if (self != nullptr && !self->is_closed_) task();
                    });
                  });
                }};
  }

  std::shared_ptr<const RevokedCertificates> revoked() {
    const std::lock_guard lock(mutex_);
    return revoked_;
  }

  // Registers a call that waits for its turn on the loop. Any thread. If the turn never comes, it calls `refuse`.
  std::uint64_t await_turn(std::function<void()> refuse) {
    {
      const std::lock_guard lock(mutex_);
      if (takes_calls_) {
        waiting_.emplace(++last_turn_, std::move(refuse));
        return last_turn_;
      }
    }
    refuse();
    return 0;
  }
  // Returns false if the call was already refused.
  bool take_turn(std::uint64_t turn) {
    const std::lock_guard lock(mutex_);
    return waiting_.erase(turn) > 0;
  }

  void ended(std::uint64_t number) {
    const auto found = streams_.find(number);
    if (found == streams_.end()) return;
    const Gone gone = std::move(found->second.gone);
    streams_.erase(found);
    if (gone) gone();
  }

  base::Loop& loop_;
  ApiHandler* const handler_;
  const std::function<void(const std::string&)> on_allowed_;
  bool is_closed_ = false;
  std::map<std::uint64_t, Open> streams_;
  std::uint64_t next_ = 1;

  std::mutex mutex_;
  std::shared_ptr<const RevokedCertificates> revoked_ = std::make_shared<const RevokedCertificates>();
  bool takes_calls_ = true;
  std::uint64_t last_turn_ = 0;
  std::map<std::uint64_t, std::function<void()>> waiting_;  // calls that were posted to the loop
};

}  // namespace muster::launcherd::service
