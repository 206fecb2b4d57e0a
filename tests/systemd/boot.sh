# Holds the files of a machine for the tests (see machine.py), and boots a systemd in it whenever it is told to.
#
#   sh boot.sh FOLDER CGROUP OWN_NETWORK TARGET DIRECTORY...
#
# FOLDER is an empty folder, CGROUP a new folder below a mount of cgroup2, OWN_NETWORK "yes" or "no", TARGET the unit to
# boot; every DIRECTORY is there inside, and can only be read ("FROM=TO" with its writes kept, under another name).
# It runs in a mount namespace of its own, so that nothing of it is seen outside; it reads "boot" and "kill" from its
# input, writes "ready" and "down", and ends with all that it began when its input is closed.
set -eu
folder=$1 cgroup=$2 own_network=$3 target=$4
shift 4
root=$folder/root

mount -t tmpfs -o mode=755 tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"
cd "$root"

# What a host does in the background, and what would touch the real one.
for unit in systemd-remount-fs systemd-modules-load systemd-sysusers systemd-networkd systemd-timesyncd \
    systemd-sysctl systemd-udevd e2scrub_reap console-getty cron ssh; do
    ln -sf /dev/null "etc/systemd/system/$unit.service"
done
for unit in apt-daily.timer apt-daily-upgrade.timer man-db.timer dpkg-db-backup.timer e2scrub_all.timer getty.target; do
    ln -sf /dev/null "etc/systemd/system/$unit"
done
echo machine > etc/hostname
rm -f etc/machine-id
systemd-id128 new > etc/machine-id
rm -rf var/log/journal
mkdir -p var/log/journal mnt/outside
rm -f etc/resolv.conf && : > etc/resolv.conf

# Run in new namespaces, in the root of the machine. $1: own network or not; $2: target; then the directories.
cat > "$folder/init.sh" <<'INIT'
set -eu
own_network=$1 target=$2
shift 2
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    : > "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
systemd-id128 new --uuid > run/boot_id # each boot is one of its own, though the kernel is not
mount --bind run/boot_id proc/sys/kernel/random/boot_id
mount --rbind proc/sys proc/sys
mount -o remount,bind,ro proc/sys # or systemd would set the real kernel's variables
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmpfs tmp
for directory in "$@"; do
    from=${directory%%=*} to=${directory##*=}
    mkdir -p ".$to"
    mount --rbind "$from" ".$to"
    case $directory in *=*) ;; *) mount -o remount,bind,ro ".$to" ;; esac
    while to=${to%/*} && [ -n "$to" ]; do chmod o+x ".$to"; done # for its ordinary users, in this copy only
done
if [ "$own_network" = yes ]; then ip link set lo up; fi
pivot_root . mnt/outside
umount -l /mnt/outside
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test \
    /lib/systemd/systemd --system "--unit=$target" systemd.unified_cgroup_hierarchy=1
INIT

network=
if [ "$own_network" = yes ]; then network=--net; fi
running=
down() {
    if [ -n "$running" ]; then
        kill -KILL "$running" 2> /dev/null || true # and with it, by --kill-child, all in its namespaces
        wait "$running" 2> /dev/null || true
        running=
    fi
    find "$cgroup" -mindepth 1 -depth -type d -exec rmdir {} + 2> /dev/null || true
}
echo ready
while read -r order; do
    down
    if [ "$order" = boot ]; then
        sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$cgroup" \
            unshare --pid --mount --uts --ipc --cgroup $network --fork --kill-child --propagation private \
            sh "$folder/init.sh" "$own_network" "$target" "$@" < /dev/null >&2 &
        running=$!
        echo "$running"
    else
        echo down
    fi
done
down
for _ in 1 2 3 4 5 6 7 8 9 10; do # the last processes take a moment to be gone
    find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null || true
    if [ ! -d "$cgroup" ]; then break; fi
    sleep 0.1
done
