#include "launcherd/service/api_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <map>
#include <utility>

#include "launcherd/service/stream_call.h"
#include "launcherd/service/unary_call.h"
#include "proto/muster/v1/launcher.grpc.pb.h"

namespace muster::launcherd {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;
// For answers that are on their way when the job is over.
constexpr std::chrono::milliseconds kLastAnswers{200};

grpc::Status to_grpc(const base::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

grpc::Status leaving() {
  return {grpc::StatusCode::UNAVAILABLE, "the job is over"};
}

}  // namespace

struct ApiServer::State : std::enable_shared_from_this<ApiServer::State> {
  State(base::Loop& loop_in, ApiSocket socket_in, ApiHandler* handler_in)
      : loop(loop_in), socket(std::move(socket_in)), handler(handler_in) {}

  // A call that has not ended: how to end it, and what to do when its caller has gone.
  struct Open {
    std::function<void(const grpc::Status&)> finish;
    std::function<void()> gone;
  };

  // `serve` on the loop, if the job is not over.
  template <typename Reply>
  grpc::ServerUnaryReactor* unary(Reply* reply, std::function<base::Result<Reply>(ApiHandler&)> serve) {
    auto call = std::make_shared<UnaryCall<Reply>>(reply);
    call->begin();
    loop.post([weak = weak_from_this(), call, serve = std::move(serve)] {
      const auto state = weak.lock();
      if (state == nullptr || state->is_closed) {
        call->answer(leaving(), Reply());
        return;
      }
      auto answer = serve(*state->handler);
      call->answer(to_grpc(answer.status()), answer.ok() ? std::move(*answer) : Reply());
    });
    return call.get();
  }

  template <typename Answer>
  grpc::ServerWriteReactor<Answer>* stream(std::function<std::function<void()>(ApiHandler&, Replies<Answer>)> serve);
  void ended(std::uint64_t call);

  class Service;

  void accept_one();
  bool make_server();
  void close();

  base::Loop& loop;
  ApiSocket socket;
  ApiHandler* const handler;
  base::Timer watch;
  bool is_closed = false;
  std::map<std::uint64_t, Open> calls;  // streams only; loop thread
  std::uint64_t next_call = 1;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::Server> server;
};

class ApiServer::State::Service final : public v1::Launcher::CallbackService {
 public:
  explicit Service(State& state) : state_(state) {}

  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext*, const v1::GetJobRequest* request,
                                   v1::Job* job) override {
    return state_.unary<v1::Job>(job, [request = *request](ApiHandler& api) { return api.get_job(request); });
  }
  grpc::ServerUnaryReactor* Kill(grpc::CallbackServerContext*, const v1::KillRequest* request,
                                 v1::KillResponse* response) override {
    return state_.unary<v1::KillResponse>(response,
                                          [request = *request](ApiHandler& api) -> base::Result<v1::KillResponse> {
                                            MUSTER_RETURN_IF_ERROR(api.kill(request));
                                            return v1::KillResponse();
                                          });
  }
  grpc::ServerUnaryReactor* Signal(grpc::CallbackServerContext*, const v1::SignalRequest* request,
                                   v1::SignalResponse* response) override {
    return state_.unary<v1::SignalResponse>(response,
                                            [request = *request](ApiHandler& api) -> base::Result<v1::SignalResponse> {
                                              MUSTER_RETURN_IF_ERROR(api.signal(request));
                                              return v1::SignalResponse();
                                            });
  }
  grpc::ServerWriteReactor<v1::Event>* Watch(grpc::CallbackServerContext*, const v1::WatchRequest* request) override {
    return state_.stream<v1::Event>([request = *request](ApiHandler& api, Replies<v1::Event> replies) {
      return api.watch(request, std::move(replies));
    });
  }
  grpc::ServerWriteReactor<v1::ProcessStack>* Stacks(grpc::CallbackServerContext*,
                                                     const v1::StacksRequest* request) override {
    return state_.stream<v1::ProcessStack>([request = *request](ApiHandler& api, Replies<v1::ProcessStack> replies) {
      api.stacks(request, std::move(replies));
      return std::function<void()>();
    });
  }

 private:
  State& state_;
};

template <typename Answer>
grpc::ServerWriteReactor<Answer>* ApiServer::State::stream(
    std::function<std::function<void()>(ApiHandler&, Replies<Answer>)> serve) {
  auto number = std::make_shared<std::uint64_t>(0);  // set and read on the loop
  auto call = std::make_shared<StreamCall<Answer>>([this, weak = weak_from_this(), number] {
    loop.post([weak, number] {
      if (const auto state = weak.lock()) state->ended(*number);
    });
  });
  call->begin();
  loop.post([weak = weak_from_this(), call, number, serve = std::move(serve)] {
    const auto state = weak.lock();
    if (state == nullptr || state->is_closed) {
      call->finish(leaving());
      return;
    }
    *number = state->next_call++;
    state->calls[*number].finish = [call](const grpc::Status& status) { call->finish(status); };
    Replies<Answer> replies{[call](Answer answer) { call->send(std::move(answer)); },
                            [call](const base::Status& status) { call->finish(to_grpc(status)); }};
    auto gone = serve(*state->handler, std::move(replies));
    // The end of the call is posted: it cannot have been told yet.
    state->calls[*number].gone = std::move(gone);
  });
  return call.get();
}

void ApiServer::State::ended(std::uint64_t call) {
  const auto found = calls.find(call);
  if (found == calls.end()) return;
  const auto gone = std::move(found->second.gone);
  calls.erase(found);
  if (gone) gone();
}

void ApiServer::State::accept_one() {
  base::UniqueFd fd(::accept4(socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // Others are closed without a word; who only looked whether we live has gone again.
  if (!fd.valid() || !is_own_peer(fd.get()) || !make_server()) return;
  grpc::AddInsecureChannelFromFd(server.get(), fd.release());
}

bool ApiServer::State::make_server() {
  if (server != nullptr) return true;
  service = std::make_unique<Service>(*this);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(service.get());
  server = builder.BuildAndStart();
  return server != nullptr;
}

void ApiServer::State::close() {
  is_closed = true;
  watch.cancel();
  for (auto& [number, call] : std::exchange(calls, {})) {
    call.finish(leaving());
    if (call.gone) call.gone();
  }
  if (server == nullptr) return;
  server->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  server->Wait();
}

std::unique_ptr<ApiServer> ApiServer::start(base::Loop& loop, ApiSocket socket, ApiHandler* handler) {
  auto state = std::make_shared<State>(loop, std::move(socket), handler);
  state->watch = loop.on_readable(state->socket.fd(), [raw = state.get()] { raw->accept_one(); });
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(state)));
}

ApiServer::ApiServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

ApiServer::~ApiServer() {
  state_->close();
}

}  // namespace muster::launcherd
