#include "launcherd/service/api_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "proto/muster/v1/launcher.grpc.pb.h"

namespace muster::launcherd {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;

// One call. gRPC owns it until OnDone; the shared_ptr to itself is that ownership. send() and finish() may be called
// from any thread, and do nothing after the end.
class StacksCall final : public grpc::ServerWriteReactor<v1::ProcessStack>,
                         public std::enable_shared_from_this<StacksCall> {
 public:
  void begin() { self_ = shared_from_this(); }

  void send(v1::ProcessStack process) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    queue_.push_back(std::move(process));
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  // After what was sent.
  void finish(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (finished_ || last_) return;
    last_ = status;
    finish_if_written();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    queue_.pop_front();
    if (!ok) {
      queue_.clear();
      last_ = grpc::Status::CANCELLED;
    }
    if (!queue_.empty()) {
      StartWrite(&queue_.front());
    } else {
      finish_if_written();
    }
  }

  void OnCancel() override { finish(grpc::Status::CANCELLED); }

  void OnDone() override { const auto last = std::move(self_); }

 private:
  void finish_if_written() {
    if (!last_ || !queue_.empty() || finished_) return;
    finished_ = true;
    Finish(*last_);
  }

  std::mutex mutex_;
  std::deque<v1::ProcessStack> queue_;  // front is being written
  std::optional<grpc::Status> last_;
  bool finished_ = false;
  std::shared_ptr<StacksCall> self_;
};

grpc::Status to_grpc(const base::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

}  // namespace

struct ApiServer::State : std::enable_shared_from_this<ApiServer::State> {
  State(base::Loop& loop_in, ApiSocket socket_in, ApiHandlers handlers_in)
      : loop(loop_in), socket(std::move(socket_in)), handlers(std::move(handlers_in)) {}

  class Service final : public v1::Launcher::CallbackService {
   public:
    explicit Service(State& state) : state_(state) {}
    grpc::ServerWriteReactor<v1::ProcessStack>* Stacks(grpc::CallbackServerContext*,
                                                       const v1::StacksRequest* request) override {
      auto call = std::make_shared<StacksCall>();
      call->begin();
      state_.loop.post([weak = state_.weak_from_this(), call, request = *request] {
        const auto state = weak.lock();
        if (state == nullptr || state->is_closed) {
          call->finish({grpc::StatusCode::UNAVAILABLE, "the launcher is leaving"});
          return;
        }
        state->calls.insert(call);
        state->handlers.stacks(
            request, [call](v1::ProcessStack process) { call->send(std::move(process)); },
            [weak, call](const base::Status& status) {
              call->finish(to_grpc(status));
              if (const auto self = weak.lock()) self->calls.erase(call);
            });
      });
      return call.get();
    }

   private:
    State& state_;
  };

  void accept_one();
  bool make_server();

  base::Loop& loop;
  ApiSocket socket;
  ApiHandlers handlers;
  base::Timer watch;
  bool is_closed = false;
  std::set<std::shared_ptr<StacksCall>> calls;  // that have not been answered
  Service service{*this};
  std::unique_ptr<grpc::Server> server;
};

void ApiServer::State::accept_one() {
  base::UniqueFd fd(::accept4(socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // Others are closed without a word; who only looked whether we live has gone again.
  if (!fd.valid() || !is_own_peer(fd.get()) || !make_server()) return;
  grpc::AddInsecureChannelFromFd(server.get(), fd.release());
}

bool ApiServer::State::make_server() {
  if (server != nullptr) return true;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.RegisterService(&service);
  server = builder.BuildAndStart();
  return server != nullptr;
}

std::unique_ptr<ApiServer> ApiServer::start(base::Loop& loop, ApiSocket socket, ApiHandlers handlers) {
  auto state = std::make_shared<State>(loop, std::move(socket), std::move(handlers));
  state->watch = loop.on_readable(state->socket.fd(), [raw = state.get()] { raw->accept_one(); });
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(state)));
}

ApiServer::ApiServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

ApiServer::~ApiServer() {
  state_->is_closed = true;
  state_->watch.cancel();
  for (const auto& call : std::exchange(state_->calls, {})) {
    call->finish({grpc::StatusCode::UNAVAILABLE, "the job is over"});
  }
  if (state_->server == nullptr) return;
  state_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  state_->server->Wait();
}

}  // namespace muster::launcherd
