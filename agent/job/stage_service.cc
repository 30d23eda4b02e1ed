// The whole of StageService. Read Work::try_to() first, which chooses by the kind of an order.
// Then read Work::broadcast() and StageService::order(), which starts the exchange with other hosts.
#include "agent/job/stage_service.h"

#include <optional>
#include <utility>
#include <vector>

#include "agent/stage/env_store.h"
#include "agent/stage/stage_folder.h"
#include "base/net.h"
#include "base/strings.h"
#include "proto/muster/v1/stage_broadcast.pb.h"
#include "proto/stage_window.h"

namespace muster::agent::inline job {
namespace {

using base::Status;

StageItem item_of(const v1::StageEntry& entry) {
  StageItem item{.path = entry.path()};
  item.kind = entry.kind() == v1::StageEntry::KIND_FOLDER ? StageItem::Kind::kFolder
              : entry.kind() == v1::StageEntry::KIND_LINK ? StageItem::Kind::kLink
                                                          : StageItem::Kind::kFile;
  item.mode = entry.mode();
  item.size = entry.size();
  item.mtime_ns = entry.mtime_ns();
  item.target = entry.target();
  return item;
}

}  // namespace

// The state of one staging: the open folder and its entries. Its functions run on the disk thread.
class StageService::Work {
 public:
  // What an exchange with other hosts needs. Present after the order that begins it.
  std::optional<StageExchange::Parts> take_parts() { return std::exchange(parts_, std::nullopt); }

  v1::StageAnswer carry_out(const v1::StageOrder& order, const std::string& environments,
                            const std::atomic<bool>& stop) {
    stop_ = &stop;
    environments_ = environments;
    v1::StageAnswer answer;
    answer.set_id(order.id());
    if (order.has_open() || order.has_find_environment()) problem_ = base::ok_status();
    if (problem_.ok()) problem_ = try_to(order, answer);
    if (!problem_.ok()) answer.set_error(base::valid_utf8(problem_.message()));
    return answer;
  }

 private:
  Status try_to(const v1::StageOrder& order, v1::StageAnswer& answer) {
    if (order.has_open()) return open(order.open());
    if (order.has_find_environment()) return find_environment(order.find_environment().id(), answer);
    if (order.has_unpack_environment()) return unpack_environment(order.unpack_environment().id(), answer);
    if (order.has_close()) {
      forget();
      return base::ok_status();
    }
    if (!folder_) return base::failed_precondition("no folder is open to stage into");
    switch (order.body_case()) {
      case v1::StageOrder::kMarks: {
        MUSTER_ASSIGN_OR_RETURN(const auto names, folder_->marks(order.marks().prefix()));
        for (const std::string& name : names) answer.add_marks(base::valid_utf8(name));
        return base::ok_status();
      }
      case v1::StageOrder::kEntries:
        return list_needs(order.entries(), answer);
      case v1::StageOrder::kData: {
        if (table_ != nullptr) return take_piece(order.data());
        MUSTER_ASSIGN_OR_RETURN(const StageItem* const item, item_at(order.data().entry()));
        return folder_->write(*item, order.data().offset(), order.data().data(), order.data().last());
      }
      case v1::StageOrder::kKeep:
        for (const int entry : order.keep().entries()) {
          MUSTER_RETURN_IF_ERROR(check_cancelled());
          MUSTER_ASSIGN_OR_RETURN(const StageItem* const item, item_at(entry));
          MUSTER_RETURN_IF_ERROR(folder_->keep(*item));
        }
        return base::ok_status();
      case v1::StageOrder::kBroadcast:
        return broadcast(order.broadcast(), answer);
      default:
        return base::unimplemented("unknown order; the launcher is newer than this agent");
    }
  }

  Status open(const v1::StageOpen& open) {
    forget();
    items_ = std::make_shared<std::vector<StageItem>>();
    std::string directory = open.directory();
    if (open.environments()) {
      MUSTER_ASSIGN_OR_RETURN(const EnvStore store, EnvStore::open(environments_));
      directory = store.folder();
    }
    MUSTER_ASSIGN_OR_RETURN(StageFolder folder, StageFolder::open(directory));
    folder_ = std::make_shared<StageFolder>(std::move(folder));
    return folder_->mark(open.mark());
  }

  Status find_environment(const std::string& id, v1::StageAnswer& answer) const {
    MUSTER_ASSIGN_OR_RETURN(const EnvStore store, EnvStore::open(environments_));
    MUSTER_ASSIGN_OR_RETURN(const bool is_there, store.find(id));
    if (is_there) answer.set_environment(store.path_of(id));
    return base::ok_status();
  }

  Status unpack_environment(const std::string& id, v1::StageAnswer& answer) const {
    MUSTER_ASSIGN_OR_RETURN(const EnvStore store, EnvStore::open(environments_));
    MUSTER_RETURN_IF_ERROR(store.unpack(id, stop_));
    answer.set_environment(store.path_of(id));
    return base::ok_status();
  }

  void forget() {
    table_.reset();
    begun_.reset();
    parts_.reset();
    piece_.clear();
    wanted_.clear();
    folder_.reset();
  }

  Status broadcast(const std::string& bytes, v1::StageAnswer& answer) {
    v1::StageBroadcast order;
    if (!order.ParseFromString(bytes)) return base::invalid_argument("an order of a broadcast is malformed");
    if (order.has_begin()) return begin(order.begin(), answer);
    if (!begun_) return base::failed_precondition("no broadcast has begun");
    if (order.has_sources()) return set_sources(order.sources());
    if (!order.has_lists()) return base::unimplemented("unknown order; the launcher is newer than this agent");
    if (table_ == nullptr) return base::failed_precondition("blocks are listed before the sources");
    for (const v1::StageBlockList& list : order.lists().files()) {
      MUSTER_RETURN_IF_ERROR(check_cancelled());
      MUSTER_RETURN_IF_ERROR(table_->add_hashes(list.entry(), list.first(), list.hashes()));
    }
    if (order.lists().is_last()) table_->end_lists();
    return base::ok_status();
  }

  Status begin(const v1::StageBegin& begin, v1::StageAnswer& answer) {
    if (begin.block_bytes() == 0 || begin.block_bytes() > kMostBlockBytes) {
      return base::invalid_argument("blocks of {} bytes", begin.block_bytes());
    }
    begun_ = begin;
    parts_.reset();
    v1::StageBroadcastAnswer port;
    // A host that cannot listen is staged, too. Other hosts then get no blocks from it.
    auto server = BlockServer::listen({begin.identity(), begin.secret()});
    if (server.ok()) port.set_port((*server)->port());
    server_ = server.ok() ? std::shared_ptr<BlockServer>(*std::move(server)) : nullptr;
    answer.set_broadcast(port.SerializeAsString());
    return base::ok_status();
  }

  Status set_sources(const v1::StageSources& sources) {
    if (table_ != nullptr) return base::failed_precondition("the sources are known already");
    StageExchange::Parts parts{.token = begun_->token(), .server = std::move(server_)};
    parts.key = {begun_->identity(), begun_->secret()};
    for (const v1::StageBlockSource& source : sources.sources()) {
      const auto address = base::IpAddress::parse(source.address());
      if (!address.ok() || source.port() == 0 || source.port() > UINT16_MAX) continue;
      parts.sources.push_back({source.name(), *address, static_cast<std::uint16_t>(source.port())});
    }
    table_ = std::make_shared<BlockTable>(folder_, items_, wanted_, begun_->block_bytes());
    parts.table = table_;
    parts_ = std::move(parts);
    return base::ok_status();
  }

  // Collects the pieces of a block from the launcher. Pieces of one block follow each other.
  Status take_piece(const v1::StageData& data) {
    const std::uint64_t block_bytes = table_->block_bytes();
    if (data.offset() % block_bytes == 0) {
      piece_.clear();
      piece_of_ = {.entry = static_cast<std::uint32_t>(data.entry()),
                   .block = static_cast<std::uint32_t>(data.offset() / block_bytes)};
    }
    const std::size_t whole = table_->bytes_of(piece_of_);
    const bool follows = static_cast<std::uint32_t>(data.entry()) == piece_of_.entry &&
                         data.offset() == piece_of_.block * block_bytes + piece_.size();
    if (!follows || piece_.size() + data.data().size() > whole) {
      return base::invalid_argument("a piece of entry {} does not follow the previous piece", data.entry());
    }
    piece_ += data.data();
    if (piece_.size() < whole) return base::ok_status();
    const Status status = table_->put(piece_of_, piece_);
    piece_.clear();
    return status;
  }

  Status list_needs(const v1::StageEntries& entries, v1::StageAnswer& answer) {
    for (const v1::StageEntry& entry : entries.entries()) {
      MUSTER_RETURN_IF_ERROR(check_cancelled());
      if (table_ != nullptr) return base::failed_precondition("an entry comes after the sources");
      if (items_->size() >= proto::kMostStageEntries) {
        return base::resource_exhausted("more than {} files", proto::kMostStageEntries);
      }
      const int number = static_cast<int>(items_->size());
      const StageItem& item = items_->emplace_back(item_of(entry));
      // In a broadcast the blocks are compared later.
      const auto digest = begun_ ? StageFolder::Digest::kNone : StageFolder::Digest::kOfFile;
      MUSTER_ASSIGN_OR_RETURN(const StageCheck check, folder_->check(item, stop_, digest));
      if (check.verdict == StageVerdict::kRight) continue;
      if (begun_) {
        folder_->sweep(item);
        wanted_.push_back(number);
      }
      v1::StageNeed& need = *answer.add_needs();
      need.set_entry(number);
      need.set_digest(check.digest);
    }
    return base::ok_status();
  }

  Status check_cancelled() const { return *stop_ ? base::cancelled("staging was cancelled") : base::ok_status(); }

  base::Result<const StageItem*> item_at(int entry) const {
    if (entry < 0 || static_cast<std::size_t>(entry) >= items_->size()) {
      return base::invalid_argument("unknown entry {}", entry);
    }
    return &(*items_)[static_cast<std::size_t>(entry)];
  }

  const std::atomic<bool>* stop_ = nullptr;  // valid only while an order runs
  std::string environments_;                 // this host's folder of environments
  std::shared_ptr<StageFolder> folder_;
  std::shared_ptr<std::vector<StageItem>> items_ = std::make_shared<std::vector<StageItem>>();
  // These are used in a broadcast only.
  std::optional<v1::StageBegin> begun_;
  std::vector<int> wanted_;              // entries that differ here or are missing
  std::shared_ptr<BlockServer> server_;  // until the sources are known
  std::shared_ptr<BlockTable> table_;    // from then on
  std::optional<StageExchange::Parts> parts_;
  BlockId piece_of_{};
  std::string piece_;  // the first bytes of the block that the launcher is sending
  // The first problem. From then on all orders fail, until the launcher opens another folder.
  Status problem_ = base::ok_status();
};

StageService::StageService(base::Loop& loop, OnAnswer on_answer) : loop_(loop), on_answer_(std::move(on_answer)) {}

StageService::~StageService() = default;

void StageService::order(const v1::StageOrder& order, const std::string& environments) {
  if (thread_ == nullptr) {
    auto work = std::make_shared<Work>();
    work_ = work.get();
    auto thread = base::DiskThread::start(loop_, std::move(work));
    if (!thread.ok()) {
      v1::StageAnswer answer;
      answer.set_id(order.id());
      answer.set_error(thread.status().message());
      on_answer_(std::move(answer));
      return;
    }
    thread_ = std::move(*thread);
  }
  if (order.has_open() || order.has_close()) exchange_.reset();
  thread_->add([this, work = work_, order, environments](const std::atomic<bool>& stop) -> base::Loop::Task {
    v1::StageAnswer answer = work->carry_out(order, environments, stop);
    return [this, answer = std::move(answer), parts = work->take_parts()]() mutable {
      if (parts) start_exchange(*std::move(parts), answer);
      on_answer_(answer);
    };
  });
}

void StageService::start_exchange(StageExchange::Parts parts, v1::StageAnswer& answer) {
  auto exchange =
      StageExchange::start(loop_, std::move(parts), [this](v1::StageAnswer report) { on_answer_(std::move(report)); });
  if (exchange.ok()) {
    exchange_ = *std::move(exchange);
  } else {
    answer.set_error(base::valid_utf8(exchange.status().message()));
  }
}

}  // namespace muster::agent::job
