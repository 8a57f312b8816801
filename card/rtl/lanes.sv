// A cipher in CTR or CBC mode, whose core several packets of one key and direction share: a lane
// each. A block of CBC encryption waits for the one before it; with as many lanes as the core has
// places for blocks, the core never does.
//
// A lane is a queue before the core and one behind it, in RAMs that all lanes share, and a chaining
// value. The oldest packet's block goes first. Packets come out in the order of their starts; the
// next start waits for the last block of the packet before it. CIPHER 0 AES-CTR (RFC 3686: nonce,
// IV, a counter from 1), 1 AES-CBC, 2 3DES-CBC.
// verilator lint_off PINCONNECTEMPTY
module lanes #(
    parameter int CIPHER = 0,
    parameter int LANES = 4,      // a power of two, two at least
    parameter int DEPTH_LOG2 = 7, // of each queue, in blocks
    parameter int WIDTH = CIPHER == 2 ? 64 : 128
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             key_valid, // while no packet is within
    output logic             key_ready,
    input  logic [255:0]     key,
    input  logic [1:0]       key_len,
    input  logic             start_valid,
    output logic             start_ready,
    input  logic             start_dec, // as the packets within
    input  logic [31:0]      start_salt,
    input  logic [127:0]     start_iv,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_block,
    input  logic [4:0]       in_bytes,
    input  logic             in_last,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_block,
    output logic [4:0]       out_bytes,
    output logic             out_last
);
  localparam int LANE = $clog2(LANES);
  localparam int ITEM = WIDTH + 6; // last, bytes, block

  // ---- packets: each has the lane after its predecessor's
  logic [LANE-1:0] filling, leaving;
  logic [LANE:0]   packets;
  logic            open; // blocks of `filling` come in
  logic            dec, start, leave;
  assign start_ready = !open && !packets[LANE];
  assign start = start_valid && start_ready;
  assign leave = out_valid && out_ready && out_last;
  always_ff @(posedge clk) begin
    if (rst) begin
      filling <= '1;
      leaving <= '0;
      packets <= '0;
      open <= 1'b0;
    end else begin
      if (start) begin
        filling <= filling + 1'b1;
        open <= 1'b1;
        dec <= start_dec;
      end else if (in_valid && in_ready && in_last) open <= 1'b0;
      if (leave) leaving <= leaving + 1'b1;
      packets <= packets + (LANE + 1)'(start) - (LANE + 1)'(leave);
    end
  end

  // ---- the queues' places: blocks in, given to the core, back from it, out
  logic [DEPTH_LOG2:0] came[LANES], given[LANES], made_to[LANES], gone[LANES];
  logic [LANES-1:0]    fresh;   // the chaining value is the IV's place in the queue
  logic [LANES-1:0]    waiting; // CBC encryption: the block before is in the core
  logic                take, give, back, put;
  logic [LANE-1:0]     lane, back_lane;
  logic [LANES-1:0]    able;
  for (genvar l = 0; l < LANES; l++) begin : g_lane
    logic [DEPTH_LOG2:0] queued, owed;
    assign queued = came[l] - given[l];
    // What is in the core counts as out, so that the core can always put its block down.
    assign owed = given[l] - gone[l];
    assign able[l] = queued != '0 && !owed[DEPTH_LOG2] && !waiting[l];
    always_ff @(posedge clk) begin
      if (rst) begin
        came[l] <= '0;
        given[l] <= '0;
        made_to[l] <= '0;
        gone[l] <= '0;
        fresh[l] <= 1'b0;
        waiting[l] <= 1'b0;
      end else begin
        if (take && filling == LANE'(l)) came[l] <= came[l] + 1'b1;
        if (give && lane == LANE'(l)) given[l] <= given[l] + 1'b1;
        if (back && back_lane == LANE'(l)) made_to[l] <= made_to[l] + 1'b1;
        if (put && leaving == LANE'(l)) gone[l] <= gone[l] + 1'b1;
        if (start && LANE'(filling + 1'b1) == LANE'(l)) fresh[l] <= 1'b1;
        else if (give && lane == LANE'(l)) fresh[l] <= 1'b0;
        if (give && lane == LANE'(l)) waiting[l] <= CIPHER != 0 && !dec;
        else if (back && back_lane == LANE'(l)) waiting[l] <= 1'b0;
      end
    end
  end

  // ---- in
  // In neither queue is anything used that was read while it was written.
  (* no_rw_check *) logic [ITEM-1:0] ahead[0:(LANES << DEPTH_LOG2) - 1];
  logic [ITEM-1:0]     item;
  logic [DEPTH_LOG2:0] room;
  assign room = came[filling] - given[filling];
  assign in_ready = open && !room[DEPTH_LOG2];
  assign take = in_valid && in_ready;
  always_ff @(posedge clk) begin
    if (take) ahead[{filling, came[filling][DEPTH_LOG2-1:0]}] <= {in_last, in_bytes, in_block};
    item <= ahead[{lane, given[lane][DEPTH_LOG2-1:0]}];
  end

  // ---- the turn: a lane is picked, its block read, the block given. Three clocks, in which no
  // core asks for the next.
  localparam logic [1:0] PICK = 0, READ = 1, GIVE = 2;
  logic [1:0]      turn;
  logic [LANE-1:0] picked;
  logic            core_ready, notes_ready;
  assign give = turn == GIVE && core_ready && notes_ready;
  always_comb begin
    picked = leaving;
    for (int i = LANES - 1; i >= 0; i--) if (able[LANE'(leaving + LANE'(i))]) picked = leaving + LANE'(i);
  end
  always_ff @(posedge clk) begin
    case (turn)
      PICK: begin
        lane <= picked;
        if (able != '0) turn <= READ;
      end
      READ: turn <= GIVE;
      default: if (give) turn <= PICK;
    endcase
    if (rst) turn <= PICK;
  end

  // ---- chaining values: one a lane, the IV in a memory of its own until the first block has used
  // it
  (* ram_style = "distributed" *) logic [WIDTH-1:0] firsts[LANES];
  (* ram_style = "distributed" *) logic [WIDTH-1:0] chains[LANES];
  logic [WIDTH-1:0] first, chain, next, block, core_in, core_out, aside, mixed, made;
  logic             link; // a chaining value is written
  assign chain = fresh[lane] ? firsts[lane] : chains[lane];
  assign block = item[WIDTH-1:0];
  if (CIPHER == 0) begin : g_mode
    logic [31:0] counter;
    assign counter = chain[127:96];
    assign first = {32'd1, start_iv[63:0], start_salt};
    assign core_in = {counter[7:0], counter[15:8], counter[23:16], counter[31:24], chain[95:0]};
    assign aside = block;
    assign next = {counter + 32'd1, chain[95:0]};
    assign link = give;
    logic unused;
    assign unused = &{1'b0, start_iv[127:64]};
  end else begin : g_mode
    assign first = start_iv[WIDTH-1:0];
    assign core_in = dec ? block : block ^ chain;
    assign aside = dec ? chain : '0;
    assign next = dec ? block : core_out;
    assign link = dec ? give : back;
    logic unused;
    assign unused = &{1'b0, start_salt, start_iv[127:WIDTH-1]};
  end
  always_ff @(posedge clk) begin
    if (start) firsts[LANE'(filling + 1'b1)] <= first;
    if (link) chains[CIPHER == 0 || dec ? lane : back_lane] <= next;
  end

  // ---- the core, and notes beside it of whose each block is
  logic       core_valid, back_last;
  logic [4:0] back_bytes;
  core_fifo #(.WIDTH(WIDTH + LANE + 6), .DEPTH(8)) u_notes (
      .clk, .rst, .in_valid(give), .in_ready(notes_ready), .in_data({lane, item[ITEM-1:WIDTH], aside}), .out_valid(),
      .out_ready(back), .out_data({back_lane, back_last, back_bytes, mixed}));
  assign back = core_valid;
  assign made = core_out ^ mixed;
  if (CIPHER == 2) begin : g_core
    core_3des u_des (
        .clk, .rst, .key_valid, .key_ready, .key(key[191:0]), .in_valid(turn == GIVE && notes_ready), .in_ready(core_ready),
        .in_block(core_in), .in_dec(dec), .out_valid(core_valid), .out_ready(1'b1), .out_block(core_out));
    logic unused;
    assign unused = &{1'b0, key[255:192], key_len};
  end else begin : g_core
    core_aes #(.OPENS(CIPHER == 1)) u_aes (
        .clk, .rst, .key_valid, .key_ready, .key, .key_len, .in_valid(turn == GIVE && notes_ready), .in_ready(core_ready),
        .in_block(core_in), .in_dec(CIPHER == 1 && dec), .out_valid(core_valid), .out_ready(1'b1), .out_block(core_out));
  end

  // ---- out: the oldest packet's blocks. Its lane is empty once the last is read, for the next
  // packet in it waits for that.
  (* no_rw_check *) logic [ITEM-1:0] behind[0:(LANES << DEPTH_LOG2) - 1];
  logic [ITEM-1:0] shown;
  assign {out_last, out_bytes, out_block} = shown;
  assign put = (!out_valid || out_ready) && made_to[leaving] != gone[leaving];
  always_ff @(posedge clk) begin
    if (back) behind[{back_lane, made_to[back_lane][DEPTH_LOG2-1:0]}] <= {back_last, back_bytes, made};
    if (put) shown <= behind[{leaving, gone[leaving][DEPTH_LOG2-1:0]}];
    if (put) out_valid <= 1'b1;
    else if (out_ready) out_valid <= 1'b0;
    if (rst) out_valid <= 1'b0;
  end
endmodule
