package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// A file that Rewrite makes has two slots of one size, which are written in turn: a crash in the middle of a write leaves the
// other, which is durable. As a whole it is JSON, {"schema":2,"slots":[SLOT,SLOT]}, with spaces behind each slot; a slot is
// null, or {"number":N,"data":DATA,"sha256":"SUM"}, where SUM is of all that stands before it in the slot. The higher number
// is the newer one. By the schema an older agent, whose ledgers have schema 1, knows that it cannot read the file.
const (
	slotsOpen, slotsBetween, slotsClose = `{"schema":2,"slots":[`, ",", "]}\n"
	slotNumber, slotData, slotSum       = `{"number":`, `,"data":`, `,"sha256":"`
	slotEmpty                           = "null"
	slotEnd                             = `"}`

	// block is what file systems give out space by, in bytes. No slot shares one with the other.
	block = 4 << 10
	// leastSlot is the size of a small slot, and spareSlots is how much larger than its data a slot may be that is larger than that.
	leastSlot, spareSlots = block, 16
	// maxSlots is larger than any file, in bytes.
	maxSlots = 1 << 30
)

// ErrNoSlot says that a file of Rewrite has no slot that is whole.
var ErrNoSlot = errors.New("neither of its two slots is whole")

// Rewrite is WriteFile, with mode 0600, of a JSON value that is written often. ReadRewritten reads it. The file keeps its place on the
// disk, so that one wait for the disk makes the new value durable and the file system's journal has no part in it. The errors
// are those of the file system; the value is then the old one. A process that goes on where a killed one stopped has to call
// SyncFile before the first Rewrite.
func Rewrite(path string, data []byte) error { return rewrite(path, data, syncData) }

func rewrite(path string, data []byte, sync func(*os.File) error) (err error) {
	f, err := openOwn(path)
	if err != nil {
		return WriteFile(path, newSlots(1, data), 0o600)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all, err := ReadAll(f, path, maxSlots)
	if err != nil { // not one of ours, or the disk does not give it back
		return WriteFile(path, newSlots(1, data), 0o600)
	}
	newest, older := newestSlot(all)
	size := len(all) / 2
	text := slot(newest.number+1, data)
	if !isSlots(all) || len(text) > roomOf(size) || size > max(leastSlot, spareSlots*len(text)) {
		return WriteFile(path, newSlots(newest.number+1, data), 0o600)
	}
	begin, end := slotBounds(older, size)
	was := bytes.TrimRight(all[begin:end], " ")
	if _, err = f.WriteAt(pad(text, max(len(text), len(was))), int64(begin)); err == nil {
		err = sync(f)
	}
	if err != nil {
		// What may not be on the disk must not be read as the newest, or the other slot would be the next to be written over.
		_, _ = f.WriteAt(pad([]byte(slotEmpty), end-begin), int64(begin))
		return &fs.PathError{Op: "rewrite", Path: path, Err: err}
	}
	return nil
}

// ReadRewritten reads what Rewrite wrote last, of at most limit bytes. A file of another form is returned as it is: ledgers
// had that form before there were slots. ErrNoSlot is a file that is damaged; other errors are those of ReadFile.
func ReadRewritten(path string, limit int64) ([]byte, error) {
	for tries := 0; ; tries++ {
		all, err := ReadFile(path, 4*(limit+block)) // two slots that were made for twice the longest value
		if err != nil || !isSlots(all) {
			return all, err
		}
		if newest, _ := newestSlot(all); newest.number > 0 {
			return newest.data, nil
		}
		if tries > 0 { // read beside a program that wrote both slots meanwhile, the second time is not
			return nil, ErrNoSlot
		}
	}
}

// SyncFile makes durable what another process wrote into a file. Its errors are the operating system's.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|NoFollow|nonBlock, 0)
	if err != nil {
		return err
	}
	return errors.Join(syncData(f), f.Close())
}

// slotted is the content of a slot; number is 0 of one that is empty or not whole.
type slotted struct {
	number uint64
	data   []byte
}

func isSlots(all []byte) bool {
	return bytes.HasPrefix(all, []byte(slotsOpen)) && len(all)%(2*block) == 0
}

// newestSlot is the newest of a file's slots, and the index of the other.
func newestSlot(all []byte) (newest slotted, older int) {
	if !isSlots(all) {
		return slotted{}, 0
	}
	for i := range 2 {
		begin, end := slotBounds(i, len(all)/2)
		if s := readSlot(all[begin:end]); s.number > newest.number {
			newest, older = s, 1-i
		}
	}
	return newest, older
}

// slotBounds is where a slot of a size begins and ends, without what makes JSON of the file.
func slotBounds(i, size int) (begin, end int) {
	if i == 0 {
		return len(slotsOpen), size
	}
	return size + len(slotsBetween), 2*size - len(slotsClose)
}

// roomOf is how long the text of either slot may be.
func roomOf(size int) int { return size - len(slotsOpen) }

// slot is the text of a slot.
func slot(number uint64, data []byte) []byte {
	text := append(strconv.AppendUint([]byte(slotNumber), number, 10), slotData...)
	text = append(text, data...)
	sum := sha256.Sum256(text)
	text = append(text, slotSum...)
	return append(hex.AppendEncode(text, sum[:]), slotEnd...)
}

func readSlot(text []byte) (s slotted) {
	text = bytes.TrimRight(text, " ")
	said := len(text) - len(slotSum) - hex.EncodedLen(sha256.Size) - len(slotEnd)
	if said < 0 || !bytes.HasPrefix(text, []byte(slotNumber)) {
		return slotted{}
	}
	sum := sha256.Sum256(text[:said])
	if string(text[said:]) != slotSum+hex.EncodeToString(sum[:])+slotEnd {
		return slotted{}
	}
	number, data, _ := bytes.Cut(text[len(slotNumber):said], []byte(slotData))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return slotted{}
	}
	return slotted{number: n, data: data}
}

// newSlots is a new file with one slot written and room for more than it has.
func newSlots(number uint64, data []byte) []byte {
	text := slot(number, data)
	size := max(leastSlot, (2*len(text)+block)/block*block)
	all := pad(nil, 2*size)
	copy(all, slotsOpen)
	copy(all[len(slotsOpen):], text)
	copy(all[size:], slotsBetween+slotEmpty)
	copy(all[2*size-len(slotsClose):], slotsClose)
	return all
}

// pad fills text up to a size with spaces.
func pad(text []byte, size int) []byte {
	return append(text[:len(text):len(text)], bytes.Repeat([]byte{' '}, size-len(text))...)
}

// openOwn opens a file that only its owner can read and write, and that has no other name.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|NoFollow|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (info.Mode() != 0o600 || !isOwn(info)) {
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
