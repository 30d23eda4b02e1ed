#include "agent/job/stage_service.h"

#include <optional>
#include <utility>
#include <vector>

#include "agent/stage/stage_folder.h"
#include "base/strings.h"
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
  v1::StageAnswer carry_out(const v1::StageOrder& order, const std::atomic<bool>& stop) {
    stop_ = &stop;
    v1::StageAnswer answer;
    answer.set_id(order.id());
    if (order.has_open()) problem_ = base::ok_status();
    if (problem_.ok()) problem_ = try_to(order, answer);
    if (!problem_.ok()) answer.set_error(base::valid_utf8(problem_.message()));
    return answer;
  }

 private:
  Status try_to(const v1::StageOrder& order, v1::StageAnswer& answer) {
    if (order.has_open()) return open(order.open());
    if (order.has_close()) {
      folder_.reset();
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
      default:
        return base::unimplemented("unknown order; the launcher is newer than this agent");
    }
  }

  Status open(const v1::StageOpen& open) {
    items_.clear();
    folder_.reset();
    MUSTER_ASSIGN_OR_RETURN(StageFolder folder, StageFolder::open(open.directory()));
    folder_.emplace(std::move(folder));
    return folder_->mark(open.mark());
  }

  Status list_needs(const v1::StageEntries& entries, v1::StageAnswer& answer) {
    for (const v1::StageEntry& entry : entries.entries()) {
      MUSTER_RETURN_IF_ERROR(check_cancelled());
      if (items_.size() >= proto::kMostStageEntries) {
        return base::resource_exhausted("more than {} files", proto::kMostStageEntries);
      }
      const int number = static_cast<int>(items_.size());
      const StageItem& item = items_.emplace_back(item_of(entry));
      MUSTER_ASSIGN_OR_RETURN(const StageCheck check, folder_->check(item, stop_));
      if (check.verdict == StageVerdict::kRight) continue;
      v1::StageNeed& need = *answer.add_needs();
      need.set_entry(number);
      need.set_digest(check.digest);
    }
    return base::ok_status();
  }

  Status check_cancelled() const { return *stop_ ? base::cancelled("staging was cancelled") : base::ok_status(); }

  base::Result<const StageItem*> item_at(int entry) const {
    if (entry < 0 || static_cast<std::size_t>(entry) >= items_.size()) {
      return base::invalid_argument("unknown entry {}", entry);
    }
    return &items_[static_cast<std::size_t>(entry)];
  }

  const std::atomic<bool>* stop_ = nullptr;  // valid only while an order runs
  std::optional<StageFolder> folder_;
  std::vector<StageItem> items_;
  // The first problem. From then on all orders fail, until the launcher opens another folder.
  Status problem_ = base::ok_status();
};

StageService::StageService(base::Loop& loop, OnAnswer on_answer) : loop_(loop), on_answer_(std::move(on_answer)) {}

StageService::~StageService() = default;

void StageService::order(const v1::StageOrder& order) {
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
  thread_->add([this, work = work_, order](const std::atomic<bool>& stop) -> base::Loop::Task {
    return [this, answer = work->carry_out(order, stop)] { on_answer_(answer); };
  });
}

}  // namespace muster::agent::job
